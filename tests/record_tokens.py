#!/usr/bin/env python3
"""Records token ids made by llama.cpp, which unit.vocab compares with ours.

Not a test: it writes fixtures/tokens/{corpus,<name>,vocabularies}.csv and the vocabulary-only GGUF files beside them.
Needs llama-cpp-python (the ids), its source archive unpacked (the vocabularies) and the SmolLM2 file of
tools/fetch-model. The corpus is made here from fixed text and a fixed seed, so a second run writes the same bytes.

    pip download --no-deps --no-binary :all: llama-cpp-python==0.3.16 && tar xzf llama_cpp_python-0.3.16.tar.gz
    tests/record_tokens.py --vocabs llama_cpp_python-0.3.16/vendor/llama.cpp/models \
                           --smollm fixtures/models/downloaded/SmolLM2-135M-Instruct.Q4_1.gguf
"""
import argparse
import csv
import ctypes
import os
import random
import shutil
import struct
import subprocess
import unicodedata

import llama_cpp

HERE = os.path.dirname(os.path.abspath(__file__))
FIXTURES = os.path.join(HERE, "..", "fixtures")
OUT = os.path.join(FIXTURES, "tokens")

LANGUAGES = [
    "The quick brown fox jumps over the lazy dog.", "Voix ambiguë d’un cœur qui au zéphyr préfère les jattes de kiwis.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.", "El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia.",
    "Pchnąć w tę łódź jeża lub ośm skrzyń fig.", "Příliš žluťoučký kůň úpěl ďábelské ódy.", "Árvíztűrő tükörfúrógép",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה", "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر", "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा",
    "நாய் ஓடியது", "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า", "いろはにほへと ちりぬるを", "色は匂へど 散りぬるを 我が世誰ぞ 常ならむ",
    "天地玄黄，宇宙洪荒。日月盈昃，辰宿列张。", "키스의 고유조건은 입술끼리 만나야 하고", "ქართული ენა", "Հայերեն", "አማርኛ ፊደል", "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ",
    "Tiếng Việt có dấu: ẵ ỡ ự", "Þú og ég", "İstanbul'da ığdır", "ﬁ ﬂ ﬃ ligatures", "ĳ Ǆ ǅ ǆ", "x² + y³ = z⁴; ½ ⅓ Ⅷ ٣ ५ ๗ 一 ㊿",
    "e\u0301 vs \u00e9; n\u0303 vs \u00f1", "A\u030a\u0301\u0316 Z\u0351\u036b\u0343", "\u200bzero\u200bwidth\ufeff", "\u202ertl\u202c",
]
CODE = [
    "for (int i = 0; i < 16; i++) {\n\tacc[i] *= alpha;\n}\n", "def f(x):\n    return x**2  # square\n\n\nprint(f(3))\n",
    "#include <stdio.h>\r\nint main(void)\r\n{\r\n    return 0;\r\n}\r\n", "SELECT * FROM t WHERE a >= 10 AND b != 'x''y';",
    "a->b.c[3]==!d&&(e||f)^~g<<2>>1", "<html><body class=\"x\">&amp;</body></html>", "\\frac{\\partial f}{\\partial x}", "x=0x1F;y=1e-9;z=.5f;w=1_000",
    "https://example.org/a?b=c&d=%20#frag", "user@example.org", "C:\\Windows\\System32", "/usr/local/lib/*.so.1.2.3", "$HOME/${x:-y}", "```c\ncode\n```",
    "{\"k\":[1,2,{\"n\":null}],\"s\":\"\\u00e9\"}", "//////////", "==========", "----------", "**********", "____________", "..........", "!!!???!?!", "(((())))",
    "x++ + ++y", "@decorator\nclass A(B): pass", "lambda: 0", "a,b;c:d", "if(a){b}else{c}", "\t\t\tif x:\n\t\t\t\ty\n", "  a\n    b\n      c\n        d\n",
]
SPACES = ["", " ", "  ", "   ", "    ", " " * 7, " " * 8, " " * 16, " " * 33, " " * 200, "\t", "\t\t", "\t \t", "\n", "\n\n", "\n\n\n", "\r\n", "\r\n\r\n", "\r", "\r\r",
          " \n", "\n ", " \n ", "  \n  ", "\n \n \n", " \t\n\r\x0b\x0c", "a ", " a", " a ", "a  ", "  a", "a  b", "a   b", "a\tb", "a \tb", "a\t b", "a\nb", "a \nb", "a\n b",
          "a\n\nb", "a \n \n b", "a\r\nb", "a  \r\n  b", "!\n", "!\n\n a", "! \n a", "a\x0bb\x0cc", "\u00a0", "a\u00a0b", "\u00a0a", "a\u00a0\u00a0b", "\u2003x", "x\u2003 y",
          "\u3000\u3000字", "\u1680a", "\u180ea\u180e b", "a\u180eb", "\u0085a", "a \u0085 b", "\u2028x\u2029y", "\u205fa\u202fb", "  1", "1  ", "1  2", " 1 2 3", "a  1", "1\n2", "1 \n 2"]
DIGITS = ["0", "1", "12", "123", "1234", "12345", "123456", "1234567", "12345678", "3.14159", "1,000,000", "-1", "+2", "1e10", "0x1f", "2026-11-30", "12:34:56", "a1", "1a", "a1b2c3",
          "１２３", "٠١٢٣٤٥٦٧٨٩", "१२३४", "Ⅳ Ⅷ", "①②③", "½¼¾", "²³¹", "x1 y22 z333 w4444", "1 1", "1  1", "1st 2nd 3rd", "$100.00", "50%", "#1", "١٢٣ 123", "1" * 50]
EMOJI = ["🙂", " 🙂", "🙂🙂", "👩‍👩‍👧‍👦", "👍🏽", "🇩🇪🇫🇷", "❤️", "a🙂b", "🙂 a", "1️⃣", "☃", "✅ done", "🤷‍♂️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🫠", "→ ← ↑ ↓", "“quoted”", "‘single’", "—–-", "…", "• item", "©®™", "€£¥₿"]
CONTRACTIONS = ["it's", "don't", "they're", "we've", "I'm", "you'll", "he'd", "IT'S", "DON'T", "THEY'RE", "WE'VE", "I'M", "YOU'LL", "HE'D", "It'S", "y'all'd've", "'s", "'S", "'t", "'re", "'RE", "'rE",
                "'ll", "'lL", "'x", "''s", "'''", " 's", "a 's", "rock'n'roll", "o'clock", "'tis", "l'eau", "it’s", "'", "' s", "'1", "'sa", "'rest", "'d'd", "s's's", "'m\n", "'velvet", "'llama", "'Sir",
                "'Sample 'Tom 'Robert 'Revenge 'Very 'Vest 'Mary 'LLama 'David", "'sample 'tom 'robert 'revenge 'very 'vest 'mary 'llama 'david", "it'\u017f '\u017fo", "'STOP 'THE 'RED 'VERY 'MAN 'LLAMA 'DOG", "a'Scott b'Tim c'Max d'Dan"]
CONTROL = ["\x00", "a\x00b", "\x01\x02\x03", "\x07", "\x08", "\x1b[31mred\x1b[0m", "\x7f", "\x1c\x1d\x1e\x1f", "a\x1cb", "\x80", "\x9f", "\ufffd", "\ufffe", "\U0010ffff", "\ue000", "\u00ad", "a\u00adb", "\x00\x00\x00 \x00",
           "\x04\x06", "\x13\x14\x16", "\x1d"]
LONG = ["a" * 100, "a" * 1000, "ab" * 500, "abc" * 333, "antidisestablishmentarianism", "Donaudampfschifffahrtsgesellschaftskapitän", "x" * 257, "é" * 100, "中" * 100, "🙂" * 50,
        "Lopadotemachoselachogaleokranioleipsanodrimhypotrimmatosilphiokarabomelitokatakechymenokichlepikossyphophattoperisteralektryonoptekephalliokigklopeleiolagoiosiraiobaphetraganopterygon",
        "supercalifragilisticexpialidocious" * 5, "0" * 300, "=" * 300, "ha" * 200, "\n" * 100, "\t" * 50, "Z" * 64 + " " + "Z" * 64]
SPECIAL = ["<|endoftext|>", "a<|endoftext|>b", " <|endoftext|> ", "<|endoftext|><|endoftext|>", "<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>", "<|begin_of_text|>x<|end_of_text|>",
           "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>", "<|reserved_special_token_1|>", "<|reserved_special_token_12|>", "<|reserved_special_token_123|>", "<s>", "</s>", "<s>Hello</s>",
           "Hello <s> world </s> !", "<unk>", "a<unk>b", "<s><s>", "<0x0A>", "<0x41>B", "<|endoftext|", "|endoftext|>", "<|ENDOFTEXT|>", "<| endoftext |>", "<<|endoftext|>>", "[PAD151646]", "x[PAD151650]y", "<repo_name>a<file_sep>b",
           "<filename>c", "<gh_stars>", "<jupyter_start>", "<issue_start> <issue_comment>", "[INST] x [/INST]", "<|eot_id|>\n", "\n<|eot_id|>", "  <s>  ", "<empty_output>"]


def fuzz_unicode(rng, n):
    """Characters assigned in this Python's Unicode; U+2581 stays out (SPM reads it as a space, we keep its bytes)."""
    ranges = [(0x20, 0x7f, 8), (0xa0, 0x250, 4), (0x250, 0x800, 4), (0x800, 0x2000, 4), (0x2000, 0x2e80, 4), (0x2e80, 0xa000, 4), (0xa000, 0xd800, 3), (0xf900, 0x10000, 3), (0x10000, 0x20000, 3), (0x20000, 0x323b0, 1)]
    weights = [w for _, _, w in ranges]
    text = []
    while len(text) < n:
        lo, hi, _ = rng.choices(ranges, weights)[0]
        c = chr(rng.randrange(lo, hi))
        if unicodedata.category(c) not in ("Cn", "Cs") and c != "\u2581":
            text.append(c)
            if rng.random() < 0.3:
                text.append(rng.choice([" ", "  ", "\n", "'", "a", "7"]))
    return "".join(text)


def fuzz_edges(rng, n):
    return "".join(rng.choice([" ", " ", "  ", "\n", "\r", "\t", "'", "s", "re", "LL", "a", "B", "é", "中", "1", "23", "!", "-", ".", "\u00a0", "🙂", "\u0301", "_"]) for _ in range(n))


def corpus():
    rows = []
    for name in sorted(os.listdir(os.path.join(FIXTURES, "prompts"))):
        with open(os.path.join(FIXTURES, "prompts", name), "rb") as f:
            rows.append((name, 1, 0, f.read()))
    for label, texts in [("language", LANGUAGES), ("code", CODE), ("spaces", SPACES), ("digits", DIGITS), ("emoji", EMOJI), ("contraction", CONTRACTIONS), ("control", CONTROL), ("long", LONG)]:
        rows += [(label, i % 2, 0, t.encode()) for i, t in enumerate(texts)]
    for t in SPECIAL:
        rows += [("special", 1, 1, t.encode()), ("special-as-text", 0, 0, t.encode())]
    rng = random.Random(20261130)
    rows += [("fuzz-unicode", i % 2, 0, fuzz_unicode(rng, rng.randrange(1, 40)).encode()) for i in range(200)]
    rows += [("fuzz-edges", i % 2, 0, fuzz_edges(rng, rng.randrange(1, 30)).encode()) for i in range(200)]
    words = [w for t in LANGUAGES + CODE + CONTRACTIONS + SPECIAL for w in t.split(" ")]
    rows += [("fuzz-words", i % 2, i % 2, " ".join(rng.choice(words) for _ in range(rng.randrange(1, 20))).encode()) for i in range(100)]
    return rows


def copy_vocabulary(source, target):
    """Copies the keys a tokenizer needs, byte for byte, and leaves the tensors out."""
    with open(source, "rb") as f:
        data = f.read(64 << 20)
    size = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def skip_string(at):
        return at + 8 + struct.unpack_from("<Q", data, at)[0]

    def skip_value(kind, at):
        if kind == 8:
            return skip_string(at)
        if kind != 9:
            return at + size[kind]
        kind, n = struct.unpack_from("<IQ", data, at)
        at += 12
        for _ in range(n if kind == 8 else 0):
            at = skip_string(at)
        return at if kind == 8 else at + n * size[kind]

    n_keys, at, kept = struct.unpack_from("<Q", data, 16)[0], 24, []
    for _ in range(n_keys):
        start = at
        at = skip_string(at)
        name = data[start + 8:at].decode()
        at = skip_value(struct.unpack_from("<I", data, at)[0], at + 4)
        if name in ("general.architecture", "general.name", "general.license") or name.startswith("tokenizer.ggml."):
            kept.append(data[start:at])
    with open(target, "wb") as f:
        f.write(data[:8] + struct.pack("<QQ", 0, len(kept)) + b"".join(kept))


class Vocabulary:
    def __init__(self, path):
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), params)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.n = llama_cpp.llama_vocab_n_tokens(self.vocab)

    def encode(self, text, add_bos, parse_special):
        room = (llama_cpp.llama_token * (len(text) + 8))()
        n = llama_cpp.llama_tokenize(self.vocab, text, len(text), room, len(room), bool(add_bos), bool(parse_special))
        assert n >= 0
        return list(room[:n])

    def piece(self, token):
        room = ctypes.create_string_buffer(4096)
        n = llama_cpp.llama_token_to_piece(self.vocab, token, room, len(room), 0, True)
        assert n >= 0
        return room.raw[:n]


def xxh128(data):
    return subprocess.run(["xxh128sum"], input=data, capture_output=True, check=True).stdout.split()[0].decode()


def write_rows(name, header, rows):
    with open(os.path.join(OUT, name), "w", newline="") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--vocabs", required=True, help="folder with llama.cpp's ggml-vocab-*.gguf")
    args.add_argument("--smollm", required=True, help="SmolLM2 GGUF; only its vocabulary is copied")
    args = args.parse_args()
    for name in ("gpt-2", "qwen2", "llama-bpe", "llama-spm"):
        shutil.copyfile(os.path.join(args.vocabs, f"ggml-vocab-{name}.gguf"), os.path.join(OUT, f"{name}.gguf"))
    copy_vocabulary(args.smollm, os.path.join(OUT, "smollm.gguf"))

    rows = corpus()
    write_rows("corpus.csv", ["text", "label", "add_bos", "parse_special", "hex"], [[i, label, bos, special, text.hex()] for i, (label, bos, special, text) in enumerate(rows)])
    summary = []
    for name in ("gpt-2", "qwen2", "llama-bpe", "llama-spm", "smollm", "seedling"):
        path = os.path.join(OUT, f"{name}.gguf") if name != "seedling" else os.path.join(FIXTURES, "models", "seedling-q8_0.gguf")
        v = Vocabulary(path)
        pieces = [v.piece(i) for i in range(v.n)]
        # A byte without a token (SmolLM2 has 21 of them) is dropped by llama.cpp; ours refuses such a text: "refused".
        have = set(b"".join(p for p in pieces if len(p) == 1))
        out, n_refused = [], 0
        for i, (_, bos, special, text) in enumerate(rows):
            refused = any(b not in have for b in text)
            n_refused += refused
            out.append([i, "refused" if refused else " ".join(map(str, v.encode(text, bos, special)))])
        write_rows(f"{name}.csv", ["text", "ids"], out)
        digest = xxh128(b"".join(struct.pack("<I", len(p)) + p for p in pieces))
        summary.append([name, v.n, len(rows) - n_refused, n_refused, digest])
    write_rows("vocabularies.csv", ["name", "tokens", "texts", "refused", "pieces_xxh3_128"], summary)
    print(f"llama-cpp-python {llama_cpp.__version__}, Unicode {unicodedata.unidata_version}")
    for row in summary:
        print(*row)


if __name__ == "__main__":
    main()
