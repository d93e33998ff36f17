"""Reads a file with the official reader of safetensors (PyPI's `safetensors`, written in Rust) and
prints what it found as JSON: of each tensor its type, its shape and the SHA-256 of its numbers; the
notes.

    python3 packages/formats/test/exports/check_safetensors.py model.safetensors
"""
import hashlib
import json
import sys

import numpy
from safetensors import safe_open

with safe_open(sys.argv[1], framework="numpy") as model:
    tensors = {}
    for name in model.keys():
        tensor = numpy.ascontiguousarray(model.get_tensor(name))
        digest = hashlib.sha256(tensor.tobytes()).hexdigest()
        tensors[name] = {"dtype": str(tensor.dtype), "shape": list(tensor.shape), "sha256": digest}
    print(json.dumps({"tensors": tensors, "notes": model.metadata()}))
