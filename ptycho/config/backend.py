"""The backend of Keras, chosen before anything imports Keras."""

from __future__ import annotations

from collections.abc import MutableMapping

from ptycho.config.errors import check

VARIABLE, NEEDED = "KERAS_BACKEND", "tensorflow"


def require_tensorflow(environ: MutableMapping[str, str]) -> None:
    """Set the variable by which Keras chooses its backend; it goes before the file ``~/.keras/keras.json``.

    Raises:
        ConfigError: the environment asks for another backend.
    """
    wanted = environ.get(VARIABLE, "")
    check(wanted in ("", NEEDED), VARIABLE, wanted, f"{NEEDED}, or unset: the networks are written for it")
    environ[VARIABLE] = NEEDED
