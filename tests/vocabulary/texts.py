"""A thousand varied strings for round trips: every script, emoji, control characters, code; the same on every run."""

import random

SAMPLES = [
    "",
    " ",
    "  ",
    "\n",
    "\r\n\t ",
    "a",
    " leading and trailing ",
    "Grüße aus Köln, naïve café, Ångström, Łódź, İstanbul, ﬁligree",
    "Здравствуй, мир! Привіт, Ґанок",
    "Καλημέρα κόσμε — ὦ ἄνδρες",
    "שלום עולם",
    "مرحبا بالعالم ١٢٣",
    "नमस्ते दुनिया, কেমন আছেন, வணக்கம், ಕನ್ನಡ, മലയാളം, ગુજરાતી, ਪੰਜਾਬੀ, සිංහල",
    "สวัสดีชาวโลก ລາວ ខ្មែរ မြန်မာ བོད་ཡིག",
    "你好,世界。這是繁體中文。",
    "こんにちは世界 カタカナ ﾊﾝｶｸ",
    "안녕하세요 세계 각",
    "አማርኛ ᏣᎳᎩ ᐃᓄᒃᑎᑐᑦ ⴰⵎⴰⵣⵉⵖ ქართული Հայերեն",
    "𐌰𐌱 𒀀𒀁 𓀀𓁐 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𠀀𠮷 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "👩‍👩‍👧‍👦 👨🏽‍💻 ❤️‍🔥 🏳️‍🌈 🇩🇪🇫🇷 👍🏿 ☺️ 1️⃣",
    "\x00\x01\x02\x1b[31mred\x1b[0m\x7f\x80\x85\x9f\ufeff\ufffd\u2028\u2029\u200b\u200d\u202e",
    "\ue000\uf8ff\U000f0000\U0010ffff\ufdd0",
    "e\u0301 o\u0308 n\u0303 \u1112\u1161\u11ab Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319",
    "def f(x: int) -> str:\n    return f'{x!r:>10}'\n\n\nclass A:\n\tpass  # tab\n",
    '{"a": [1, -2.5e10, null, true], "b\\n": "\\u00e9\\ud83d\\ude00", "c": {}}',
    "SELECT * FROM t WHERE a <> 'x''y' -- comment\n;\n/* ▁ and Ġ and Ċ are text, too */",
    "<html><body>&nbsp;&#233;<br/></body></html>\n" + " " * 37 + "\t" * 9,
    '#include <stdio.h>\nint main(void) { printf("%d\\n", 1 << 31); return 0; }',
    "https://example.org/a/b?c=d&e=%20f#g user+tag@example.co.uk C:\\Users\\x 192.168.0.1:8080",
    "0123456789 3.14159 1,000,000 0xDEADBEEF 1e-9 ½ ² Ⅷ 一二三",
    "don't I'll we've it's THE End...!!! ??? ---- ____ ==== ~~~~ ```",
    "<0x41> <0xE2> ▁▁ <unknown> Ġhello Ċ",
]

# Where the characters of a generated string come from: first and last code point.
BLOCKS = [
    (0x00, 0x1F), (0x20, 0x7E), (0x7F, 0xFF), (0x100, 0x24F), (0x250, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x530, 0x5FF),
    (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F), (0x1000, 0x109F), (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x206F),
    (0x2190, 0x23FF), (0x2500, 0x27BF), (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xE000, 0xE0FF), (0xFE00, 0xFFFF),
    (0x10000, 0x1007F), (0x12000, 0x1237F), (0x1D400, 0x1D7FF), (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF), (0xE0000, 0xE01EF),
    (0x10FF00, 0x10FFFF),
]  # fmt: skip


def varied_texts(count: int = 1000) -> list[str]:
    """The samples, then strings drawn from one block, from all blocks, and spliced from samples."""
    rng = random.Random(20)
    texts = list(SAMPLES)
    while len(texts) < count:
        kind = len(texts) % 4
        if kind == 0:
            low, high = rng.choice(BLOCKS)
            text = "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 40)))
        elif kind == 1:
            text = "".join(chr(rng.randint(*rng.choice(BLOCKS))) for _ in range(rng.randint(1, 40)))
        elif kind == 2:
            left, right = rng.sample(SAMPLES, 2)
            text = left[: rng.randint(0, len(left))] + right[rng.randint(0, len(right)) :]
        else:
            text = "".join(rng.choice(" \n\t{}[]:,\"'\\/abcXYZ019_-<>=é中🙂") for _ in range(rng.randint(1, 60)))
        texts.append(text)
    return texts
