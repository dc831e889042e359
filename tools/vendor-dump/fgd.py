#!/usr/bin/env python3
"""fgd.py - reads a .fgd dump: `fgd.py FILE` prints its records as CSV, `import fgd; fgd.read(FILE)` gives them.
Hashes are verified by the xxhash module; without it, only `fgd.py --unverified FILE` reads. Format: fgd.h; MIT."""
import struct, sys

NO_ID, NO_TOP1, NO_TOP2, NO_LSE, NO_HASH, LOGPROBS, END = (1 << i for i in range(7))


def read(path, verify=True):
    data = open(path, "rb").read()
    magic, version, stride, n_top_k, n_logits, n_prov, count, n_text, at, _ = struct.unpack_from("<8s4I5Q", data)
    mark, _, _, n_blocks = struct.unpack_from("<8s3Q", data, len(data) - 96)
    text_at = at + count * stride
    if (magic, version, mark, text_at + n_text + 16 * n_blocks + 96) != (b"FGDUMP1\n", 1, b"FGDEND1\n", len(data)):
        raise ValueError(path + ": not a whole dump")
    if verify:
        from xxhash import xxh3_128_digest as digest
        parts = [data[:at]] + [data[i:min(i + 65536, end)] for begin, end in ((at, text_at), (text_at, text_at + n_text))
                               for i in range(begin, end, 65536)]
        if b"".join(map(digest, parts)) != data[text_at + n_text:][:16 * n_blocks]:
            raise ValueError(path + ": a block is damaged")
    lines = data[64:64 + n_prov].decode(errors="surrogateescape").split("\n")[:-1]
    records = []
    for i in range(count):
        step, token, id1, l1, id2, l2, lse, flags, n, off, row = struct.unpack_from("<Iiififd2IQ16s", data, at + i * stride)
        text = data[text_at + off:text_at + off + n]
        records.append(dict(step=step, token=token, text=text, id1=id1, logit1=l1, id2=id2, logit2=l2, logsumexp=lse,
                            flags=flags, row=row.hex()))
    return dict(line.split("=", 1) for line in lines), records


if __name__ == "__main__":
    try:
        records = read(sys.argv[-1], "--unverified" not in sys.argv[1:-1])[1]
    except ImportError:
        sys.exit("fgd.py: without the xxhash module nothing can be verified: pip install xxhash, or fgd.py --unverified FILE")
    print("step,token_id,token_bytes_hex,id1,logit1,id2,logit2,flags,row_hash")
    for r in records:
        print(f"{r['step']},{r['token']},{r['text'].hex()},{r['id1']},{r['logit1']:.9g},{r['id2']},{r['logit2']:.9g},"
              f"{r['flags']},{r['row']}")
