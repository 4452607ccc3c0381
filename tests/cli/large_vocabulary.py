"""A copy of a small model with a vocabulary as large as one wants: the laboratory's with the 151,936 ids of Qwen's models, say,
so that what grows with the vocabulary can be measured on a body that takes no time."""
import json
import pathlib
import random
import shutil
import struct

EMBEDDING = "model.embed_tokens.weight"


def random_floats(count, seed):
    """`count` float32 of either sign, between 1/128 and 1/32 in size, as bytes."""
    data = bytearray(random.Random(seed).randbytes(4 * count))
    data[3::4] = data[3::4].translate(bytes(0x3C | byte & 0x80 for byte in range(256)))
    return bytes(data)


def with_vocabulary(source, target, size, seed):
    """Writes `source`, a tied model of one float32 file and a BPE tokenizer, with words and random rows up to `size` ids."""
    source, target = pathlib.Path(source), pathlib.Path(target)
    shutil.copytree(source, target)
    config = json.loads((source / "config.json").read_text())
    assert config["tie_word_embeddings"]
    (target / "config.json").write_text(json.dumps(config | {"vocab_size": size}))
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    words = tokenizer["model"]["vocab"]
    words.update({token["content"]: token["id"] for token in tokenizer["added_tokens"]})
    words.update({f"word{number}": number for number in range(config["vocab_size"], size)})
    (target / "tokenizer.json").write_text(json.dumps(tokenizer))

    data = (source / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, values = json.loads(data[8 : 8 + length]), memoryview(data)[8 + length :]
    tensors = {name: (about, values[slice(*about["data_offsets"])]) for name, about in header.items() if name != "__metadata__"}
    about, rows = tensors[EMBEDDING]
    assert about["dtype"] == "F32"
    more = size - about["shape"][0]
    tensors[EMBEDDING] = {**about, "shape": [size, about["shape"][1]]}, bytes(rows) + random_floats(more * about["shape"][1], seed)
    offset, written = 0, {}
    for name, (about, values) in tensors.items():
        written[name] = {**about, "data_offsets": [offset, offset + len(values)]}
        offset += len(values)
    text = json.dumps(written).encode()
    text += b" " * (-len(text) % 8)
    with open(target / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            file.write(values)
