// A pickle is a program. Reading one executes no code of it, terminates, and refuses in one
// sentence.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { InputUnusableError } from "../../../../src/errors/errors.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import {
  bytesOf,
  diskOf,
  int,
  tensor,
  text,
  torchOf,
} from "../../../../test/helpers/stores/torch-bytes.ts";
import { rounds } from "../../../../test/helpers/thinned.ts";
import { PickledTensor } from "../../torch/pickled-values.ts";
import { openTorchPath } from "../../torch/read-torch-file.ts";
import { unpickle } from "../../torch/unpickle.ts";

const head = bytesOf(0x80, 2);

function isRefused(t: ExecutionContext, pickle: Uint8Array, message: RegExp): void {
  const read = () => unpickle(bytesOf(head, pickle, "."), "model.pt");
  t.throws(read, { instanceOf: InputUnusableError, message });
}

test("calls other than those for tensors are refused by name, and not made", (t) => {
  const path = join(startDirectory(t), "made-by-a-pickle");
  const call = (global: string, argument: string) => bytesOf(global, text(argument), 0x85, "R");
  const named = (name: string) => new RegExp(`got at byte \\d+: the name "${name}", which is not`);
  isRefused(t, call("cposix\nsystem\n", `touch ${path}`), named("posix.system"));
  isRefused(t, call("cos\nsystem\n", `touch ${path}`), named("os.system"));
  isRefused(t, call("cbuiltins\neval\n", "1"), named("builtins.eval"));
  isRefused(t, call("c__builtin__\nexec\n", "1"), named("__builtin__.exec"));
  const stacked = bytesOf(text("builtins"), text("getattr"), 0x93);
  isRefused(t, stacked, named("builtins.getattr"));
  isRefused(t, bytesOf("ctorch.hub\nload\n"), named("torch.hub.load"));
  // Names of JavaScript's own objects are not on the whitelist either.
  isRefused(t, bytesOf("cconstructor\nconstructor\n"), named("constructor.constructor"));
  isRefused(t, bytesOf("c__proto__\n__proto__\n"), named("__proto__.__proto__"));
  const sharded = "ctorch.distributed._shard.sharded_tensor.api\nShardedTensor\n";
  isRefused(t, bytesOf(sharded), /save a state dict of plain tensors/);
  t.false(existsSync(path));
});

test("opcodes that make objects or call them are refused", (t) => {
  for (const opcode of [0x69, 0x6f, 0x81, 0x92, 0x82, 0x50, 0x97]) {
    const hex = opcode.toString(16);
    isRefused(t, bytesOf("ccollections\nOrderedDict\n)", opcode), new RegExp(`opcode 0x${hex}`));
  }
  // A call of a storage, a storage of another class, and a tensor with a state.
  isRefused(t, bytesOf("ctorch\nFloatStorage\n)R"), /a call of the type of a storage/);
  isRefused(t, bytesOf(text("x"), "Q"), /a persistent id that is no storage of numbers/);
  const own = tensor({ count: 4, shape: [4], strides: [1] });
  isRefused(t, bytesOf(own, "}b"), /a state of a tensor/);
  isRefused(t, bytesOf(text("a"), ")R"), /a call of a str/);
});

test("deep nesting, marks and memo bombs terminate, and take little memory", (t) => {
  const many = rounds("depth of a pickle", 200_000, 1_000_000);
  const nested = bytesOf(Buffer.alloc(many, "]"), Buffer.alloc(many - 1, "a"), ".");
  t.true(Array.isArray(unpickle(bytesOf(head, nested), "model.pt")));
  isRefused(t, Buffer.alloc(many, "("), /1000 open marks/);
  // Each list has the list before it ten times. Values are shared, so memory does not explode.
  let bomb = bytesOf("]q", 0);
  for (let i = 1; i < 200; i++) {
    const again = Array.from({ length: 10 }, () => bytesOf("h", i - 1));
    bomb = bytesOf(bomb, "](", ...again, "eq", i);
  }
  isRefused(t, bomb, /values left on the stack/);
  // A list that contains itself is valid.
  t.true(Array.isArray(unpickle(bytesOf(head, "]q", 1, "h", 1, "a."), "model.pt")));
});

test("lengths and counts beyond the bytes of the pickle are refused", (t) => {
  const end = /the end of the pickle/;
  const long = Uint8Array.of(0xff, 0xff, 0xff, 0x00);
  isRefused(t, bytesOf("X", long), end);
  isRefused(t, bytesOf("B", long), end);
  isRefused(t, bytesOf("X", Buffer.alloc(4, 0xff)), /a text of 4294967295 bytes/);
  isRefused(t, bytesOf(0x8d, Buffer.alloc(8, 0xff)), /a text of/);
  isRefused(t, bytesOf(0x8a, 255), end);
  isRefused(t, bytesOf("cos"), end);
  isRefused(t, bytesOf("h", 9), /memo entry 9, which was never written/);
  isRefused(t, bytesOf("a"), /an empty stack in the place of values/);
  isRefused(t, bytesOf("}(", text("a"), "u"), /a key without a value/);
  isRefused(t, bytesOf("}", "]", "Ns"), /a list as the key of a dict/);
  isRefused(t, bytesOf("}Na"), /a dict in the place of a list/);
  isRefused(t, bytesOf("X", Uint8Array.of(1, 0, 0, 0, 0xff)), /not in UTF-8/);
  isRefused(t, bytesOf(0x80, 9), /protocol 9, expected 2 to 5/);
  t.throws(() => unpickle(new Uint8Array(), "model.pt"), { instanceOf: InputUnusableError });
});

test("a tensor must lie within its storage, whatever its strides", (t) => {
  const at = (of: Parameters<typeof tensor>[0], message: RegExp) =>
    isRefused(t, tensor(of), message);
  at({ count: 4, shape: [5], strides: [1] }, /ends at number 4 of a storage of 4/);
  at({ count: 4, offset: 1, shape: [4], strides: [1] }, /ends at number 4/);
  at({ count: 4, shape: [2, 2], strides: [3, 1] }, /ends at number 4/);
  at({ count: 4, shape: [4], strides: [-1] }, /is not a whole number/);
  at({ count: 4, offset: -1, shape: [1], strides: [1] }, /is not a whole number/);
  at({ count: 4, shape: [2 ** 52, 2 ** 52], strides: [2 ** 52, 1] }, /ends at number/);
  at(
    { count: 4, shape: [2 ** 40], strides: [0] },
    /a tensor of 1099511627776 numbers that repeat the 4 of a storage/,
  );
  at({ count: 4, shape: [4], strides: [1, 1] }, /a tensor without a stride for each size/);
  at({ count: 4, shape: Array(9).fill(1), strides: Array(9).fill(1) }, /at most 8/);
  at(
    { count: 4, key: "../x", shape: [4], strides: [1] },
    /a storage whose key is not a short name/,
  );
  at({ count: 4, type: "QInt8Storage", shape: [4], strides: [1] }, /torch\.QInt8Storage/);
  const scalar = bytesOf(
    ...["cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\n", text("f8"), 0x85, "R"],
    ...["c_codecs\nencode\n", text("abc"), text("latin1"), 0x86, "R", 0x86, "R"],
  );
  isRefused(t, scalar, /a NumPy number of type f8 in 3 bytes/);
  isRefused(t, bytesOf("ctorch\nSize\n", int(3), 0x85, "R"), /a size that is not made of a tuple/);
});

test("a tensor saved as negated gets the other sign, and other tensor flags are refused", (t) => {
  // As torch._utils._rebuild_tensor_v2 reads it: `x.conj().imag` is the storage with the neg bit.
  const plain = { count: 4, shape: [2], strides: [2], offset: 1 };
  const numbers = Float32Array.of(1, -2, 3, 0);
  const read = (type: string, storage: Float32Array | Float64Array) => {
    const pickle = tensor({ ...plain, type, metadata: ["neg"] });
    const file = diskOf(torchOf(pickle, [new Uint8Array(storage.buffer)]));
    const torch = openTorchPath("m.pt", file);
    const { value } = torch;
    if (!(value instanceof PickledTensor)) throw new TypeError("a tensor");
    return torch.read(value, 0, 2);
  };
  t.deepEqual([...new Float32Array(read("FloatStorage", numbers).buffer)], [2, -0]);
  const doubles = read("DoubleStorage", Float64Array.from(numbers));
  t.deepEqual([...new Float64Array(doubles.buffer)], [2, -0]);
  t.notThrows(() => unpickle(bytesOf(head, tensor({ ...plain, metadata: [] }), "."), "model.pt"));
  isRefused(t, tensor({ ...plain, metadata: ["conj"] }), /a tensor whose metadata have `conj`/);
  const integers = { ...plain, type: "LongStorage", metadata: ["neg"] };
  isRefused(t, tensor(integers), /a tensor of int64 that is negated/);
});

test("a pickle that is cut short anywhere is refused", (t) => {
  const file = readFileSync("test/fixtures/pytorch/dlrm.pt");
  const first = file.indexOf(bytesOf(0x80, 2, "}q"));
  const pickle = file.subarray(first, first + 1500);
  t.true(first > 0);
  for (let length = 0; length < pickle.length; length++) {
    const read = () => unpickle(pickle.subarray(0, length), "model.pt");
    t.throws(read, { instanceOf: InputUnusableError });
  }
});
