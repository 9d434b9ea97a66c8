"""The keys of a program, by its schema."""

from ptycho.config.mapping import ordered_fields
from ptycho.config.messages import fields_of, sections_of


def keys_of(cls, prefix=""):
    """Every key of a schema, ``section.key``, and every section."""
    for name, field in ordered_fields(cls):
        yield f"{prefix}{name}"
        for section in sections_of(field.annotation).values():
            yield from keys_of(section, f"{prefix}{name}.")


def sections(schema):
    """A schema, and the schemas of all sections in it."""
    yield schema
    for field in fields_of(schema).values():
        for section in sections_of(field.annotation).values():
            yield from sections(section)
