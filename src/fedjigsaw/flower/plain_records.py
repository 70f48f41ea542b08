"""Which records of a message are read at all: those that take little more memory than their bytes.

The size of a message is limited. But Flower makes a Python object of each value in a record, so
that a list of small numbers, or very many names, take thirty times their bytes. The records of
fedjigsaw have a few texts, bytes and lists of bytes. Here the bytes of a record are looked at
before anything is made of them.
"""

from collections.abc import Collection, Iterator

MAX_ENVELOPE = 2**16  # bytes of what is around the records of a message
MAX_PARTS = 2**17  # of a record: more than the summaries that a question can show
VALUE = 2  # number of the field with the value, in an item of a record
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # how a field of a protobuf message is written
MAX_VARINT = 10  # bytes


def check_envelope(content: bytes) -> None:
    """Raise a ValueError if what is around the records of a message is long."""
    if len(content) > MAX_ENVELOPE:
        raise ValueError(f"More than {MAX_ENVELOPE} bytes are around the records of a message.")


def check_record(content: bytes, single: Collection[int], bytes_list: int) -> None:
    """Raise a ValueError if a record has very many parts, or a list of anything but bytes.

    Parameters
    ----------
    content : a head that ends with a zero byte, and a protobuf message of items.
    single : numbers of the fields of a value that are no lists.
    bytes_list : number of the field that is a list of bytes.
    """
    items = memoryview(content)[content.index(b"\0") + 1 :]
    for n_parts, kind in enumerate(_parts(items, bytes_list)):
        if n_parts >= MAX_PARTS:
            raise ValueError(f"A record has more than {MAX_PARTS} parts.")
        if kind is not None and kind != bytes_list and kind not in single:
            raise ValueError("A record has a list of something else than bytes.")


def _parts(items: memoryview, bytes_list: int) -> Iterator[int | None]:
    """Yield the kind of each value, and None for each other part of a record."""
    for _, item in _fields(items):
        yield None
        for number, value in _fields(item):
            yield None
            for kind, inside in _fields(value) if number == VALUE else ():
                yield kind
                for _ in _fields(inside) if kind == bytes_list else ():
                    yield None


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield number and bytes of each field of a protobuf message; a ValueError if it is none."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        written = tag & 7
        if written == VARINT:
            size = _varint(message, place)[1] - place
        elif written == BYTES:
            size, place = _varint(message, place)
        elif written in (FIXED64, FIXED32):
            size = 8 if written == FIXED64 else 4
        else:
            raise ValueError("A record is not a protobuf message.")
        if size > len(message) - place:
            raise ValueError("A record is cut off.")
        yield tag >> 3, message[place : place + size]
        place += size


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """Return the number at a place, and the place after it."""
    number = 0
    for i, byte in enumerate(message[place : place + MAX_VARINT]):
        number |= (byte & 127) << 7 * i
        if byte < 128:
            return number, place + i + 1
    raise ValueError("A record is not a protobuf message.")
