"""Measurements of accuracy and speed; ``docs/development.md`` lists them. TensorFlow prints errors alone."""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def parser(text: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help is ``text`` as it stands."""
    return argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
