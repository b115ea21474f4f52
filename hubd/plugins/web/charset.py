"""The character set of a text, and the text itself.

A byte order mark decides, then the header, then a declaration in the text, as in browsers; else the
text is UTF-8. Only the character sets of the web are accepted: some of Python's codecs are not
character sets at all, and some decompress.
"""

import codecs
import re
from collections.abc import Iterator
from typing import Final

from hubd.wire.lazy_pattern import lazy_pattern

DEFAULT: Final = "utf-8"
# The bytes at the beginning that may declare a character set.
_DECLARATION_BYTES: Final = 1024
# Bytes that are decoded at a time, so that other threads run in between.
_SLICE: Final = 64 * 1024

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# The names on the web of each of Python's codecs. Browsers read Latin-1 and ASCII as Windows-1252.
_NAMES: Final[dict[str, str]] = {
    "utf-8": "utf-8 utf8 unicode-1-1-utf-8",
    "utf-16-le": "utf-16 utf-16le ucs-2 unicode",
    "utf-16-be": "utf-16be",
    "cp1252": "windows-1252 cp1252 x-cp1252 iso-8859-1 iso8859-1 iso_8859-1 latin1 latin-1 l1 "
    "ascii us-ascii ansi_x3.4-1968",
    "cp1254": "windows-1254 iso-8859-9 latin5",
    "cp874": "windows-874 iso-8859-11 tis-620",
    "gb18030": "gb18030 gbk gb2312 x-gbk gb_2312-80",
    "big5hkscs": "big5 big5-hkscs x-x-big5",
    "cp932": "shift_jis shift-jis sjis x-sjis windows-31j",
    "euc_jp": "euc-jp",
    "iso2022_jp": "iso-2022-jp",
    "cp949": "euc-kr ks_c_5601-1987 windows-949",
    "koi8-r": "koi8-r",
    "koi8-u": "koi8-u",
    "cp866": "ibm866",
    "mac_roman": "macintosh",
    **{f"iso8859-{part}": f"iso-8859-{part}" for part in (*range(2, 9), 10, 13, 14, 15, 16)},
    **{f"cp125{part}": f"windows-125{part}" for part in (0, 1, 3, 5, 6, 7, 8)},
}
_CODECS: Final = {name: codec for codec, names in _NAMES.items() for name in names.split()}
_IN_HTML: Final = lazy_pattern(
    rb"""<meta[^>]{0,400}?charset\s{0,9}=\s{0,9}["']?\s{0,9}([\w.:-]+)""", re.I
)
_IN_XML: Final = lazy_pattern(
    rb"""^\s{0,99}<\?xml[^>]{0,200}?encoding\s{0,9}=\s{0,9}["']([\w.:-]+)"""
)
_IN_CSS: Final = lazy_pattern(rb'^@charset "([\w.:-]+)";')


def detect(beginning: bytes, header: str | None) -> str:
    """Return the name of the codec of a text.

    Args:
        beginning: The first bytes of the text.
        header: The character set that the server named, if any.
    """
    for bom, codec in _BOMS:
        if beginning.startswith(bom):
            return codec
    if header and (named := _CODECS.get(header.strip().lower())):
        return named
    head = beginning[:_DECLARATION_BYTES]
    for declaration in (_IN_XML, _IN_CSS, _IN_HTML):
        if match := declaration.search(head):
            codec = _CODECS.get(match[1].decode("ascii", "replace").lower(), "")
            if codec:
                # The declaration was readable, so the text is not UTF-16.
                return DEFAULT if codec.startswith("utf-16") else codec
    return DEFAULT


def decode(content: bytes, codec: str) -> Iterator[str]:
    """Yield the text in pieces, without its byte order mark. Invalid bytes become U+FFFD."""
    decoder = codecs.getincrementaldecoder(codec)(errors="replace")
    first = True
    for start in range(0, len(content), _SLICE):
        last = start + _SLICE >= len(content)
        piece = decoder.decode(content[start : start + _SLICE], last)
        if first and piece:
            piece, first = piece.removeprefix("\ufeff"), False
        yield piece
