#!/usr/bin/env bash
# A direct read of Linux that reaches past the end of a file writes zeros behind what it counts.
#
# A buffer manager reads pages of 64 KiB with O_DIRECT into frames that nobody has touched, as
# large databases do. A table of small files has one page of a few KB in each.
#
# Expected: a read that answers 2,555 has written 2,555 bytes, or as many blocks as they take; what
# lies behind stays as it was, and its memory is not taken. A buffered read does so, and so does a
# direct one that begins behind the end.
# Seen on ext4 (Linux 6.18): the whole rest of the buffer is zeros, 62,981 bytes that the answer
# does not count. So each small file takes the memory of a whole page, 500 MiB for 8,000 files of
# 2.5 KB, and whoever keeps something behind a short read loses it.
#
# It hurts whoever reads many small files into large frames; a request that ends with the block in
# which the file ends takes what it needs. No package is installed: it is the kernel.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
kind=$(stat --file-system --format=%T .)
case $kind in
ext2/ext3) ;;
*) echo "skipped: $home is on $kind, and this was seen on ext4"; exit 0 ;;
esac

cat >look.py <<'PYTHON'
import mmap
import os
import platform

PAGE, LEN, FILES = 64 << 10, 2555, 500
print(f"Linux {platform.release()}")
changed = []


def see(what, seen, before):
    """Prints what is seen; notes where it is another than when this was written."""
    print(f"{what}: {seen}")
    if seen != before:
        changed.append(f"{what}: was {before}")


def read(flags, offset, length=PAGE):
    """What a read answers, and the bytes of a full buffer that it has changed behind its answer."""
    buffer = mmap.mmap(-1, PAGE)
    buffer.write(b"\xaa" * PAGE)
    file = os.open("small", os.O_RDONLY | flags)
    answer = os.preadv(file, [memoryview(buffer)[:length]], offset)
    os.close(file)
    return answer, sum(byte != 0xAA for byte in buffer[answer:])


def resident(length):
    """KiB of memory that frames take into which small files were read."""
    def now():
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    frames = mmap.mmap(-1, FILES * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    frames.madvise(mmap.MADV_NOHUGEPAGE)
    file, view, before = os.open("small", os.O_RDONLY | os.O_DIRECT), memoryview(frames), now()
    for frame in range(FILES):
        os.preadv(file, [view[frame * PAGE:frame * PAGE + length]], 0)
    return now() - before


with open("small", "wb") as small:
    small.write(b"x" * LEN)
    os.fsync(small.fileno())
see("buffered", read(0, 0), (LEN, 0))
see("direct", read(os.O_DIRECT, 0), (LEN, PAGE - LEN))
see("direct, ends with the block", read(os.O_DIRECT, 0, 4096), (LEN, 4096 - LEN))
see("direct, from behind the end", read(os.O_DIRECT, 4096), (0, 0))
whole, clipped = resident(PAGE), resident(4096)
print(f"{FILES} frames take {whole} KiB, and {clipped} where requests end with the block")
see("whole frames are taken", whole > 0.9 * FILES * PAGE / 1024, True)
see("blocks are taken", clipped < 2 * FILES * 4, True)

if changed:
    raise SystemExit("\nNo longer as it was:\n" + "\n".join(changed))
PYTHON
python3 look.py
