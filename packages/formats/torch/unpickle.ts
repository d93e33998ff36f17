// Reads a pickle of torch.save, protocols 2 to 5, as plain data. A pickle is a program for a stack
// machine; this implementation has only the opcodes that build data, and for calls only the
// functions of safe-globals.ts. Any other opcode or name is an error.
//
// Declared lengths are compared with the bytes present before memory is allocated, so a small file
// cannot use much memory, and the program ends with the file.

import { InputUnusableError } from "../../../internal.ts";
import {
  Global,
  kindOf,
  type Pickled,
  type PickledKey,
  ScalarType,
  Tuple,
} from "./pickled-values.ts";
import { CallRefused, called, globalOf, storageOf } from "./safe-globals.ts";

/** Most values on the stack, open marks, and memoized values. */
const [stackMax, marksMax, memoMax] = [2 ** 22, 1000, 2 ** 22];
/** Most bytes of a string. Usually strings are names, or notes of some KiB. */
const textBytesMax = 2 ** 24;

/** The value of a pickle. `path`: its file, for error messages. @throws InputUnusableError */
export function unpickle(bytes: Uint8Array, path: string): Pickled {
  const machine = new Machine(bytes);
  try {
    return machine.run();
  } catch (error) {
    if (!(error instanceof CallRefused)) throw error;
    const message =
      `Expected the pickle in ${path} to be data as torch.save writes it, got at byte ` +
      `${machine.at}: ${error.message}`;
    throw new InputUnusableError(path, message);
  }
}

class Machine {
  /** Offset of the next byte. */
  at = 0;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #stack: Pickled[] = [];
  /** Heights of the stack at open marks. */
  readonly #marks: number[] = [];
  readonly #memo = new Map<number, Pickled>();
  readonly #texts = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  run(): Pickled {
    for (;;) {
      const opcode = this.#u8();
      if (opcode === 0x2e) break;
      if (!this.#constant(opcode) && !this.#container(opcode) && !this.#remembered(opcode)) {
        this.#call(opcode);
      }
      if (this.#stack.length > stackMax) throw new CallRefused(`more than ${stackMax} values`);
    }
    const value = this.#pop();
    if (this.#stack.length > 0) throw new CallRefused("values left on the stack");
    return value;
  }

  /** Numbers, texts and None. */
  #constant(opcode: number): boolean {
    const push = (value: Pickled) => {
      this.#stack.push(value);
      return true;
    };
    switch (opcode) {
      case 0x80: // PROTO
        return this.#protocol(this.#u8());
      case 0x95: // FRAME: only a hint for reading ahead.
        this.#take(8);
        return true;
      case 0x4e: // NONE
        return push(null);
      case 0x88: // NEWTRUE
        return push(true);
      case 0x89: // NEWFALSE
        return push(false);
      case 0x4a: // BININT
        return push(this.#view.getInt32(this.#take(4), true));
      case 0x4b: // BININT1
        return push(this.#u8());
      case 0x4d: // BININT2
        return push(this.#view.getUint16(this.#take(2), true));
      case 0x8a: // LONG1
        return push(this.#long(this.#u8()));
      case 0x47: // BINFLOAT
        return push(this.#view.getFloat64(this.#take(8), false));
      case 0x58: // BINUNICODE
        return push(this.#text(this.#u32()));
      case 0x8c: // SHORT_BINUNICODE
        return push(this.#text(this.#u8()));
      case 0x8d: // BINUNICODE8
        return push(this.#text(this.#u64()));
      case 0x42: // BINBYTES
        return push(this.#slice(this.#u32()));
      case 0x43: // SHORT_BINBYTES
        return push(this.#slice(this.#u8()));
      default:
        return false;
    }
  }

  /** Dictionaries, lists and tuples. */
  #container(opcode: number): boolean {
    const tuple = (count: number) => this.#stack.push(new Tuple(this.#popMany(count)));
    switch (opcode) {
      case 0x28: // MARK
        if (this.#marks.length === marksMax) throw new CallRefused(`${marksMax} open marks`);
        this.#marks.push(this.#stack.length);
        return true;
      case 0x7d: // EMPTY_DICT
        this.#stack.push(new Map());
        return true;
      case 0x5d: // EMPTY_LIST
        this.#stack.push([]);
        return true;
      case 0x29: // EMPTY_TUPLE
        tuple(0);
        return true;
      case 0x85: // TUPLE1
      case 0x86: // TUPLE2
      case 0x87: // TUPLE3
        tuple(opcode - 0x84);
        return true;
      case 0x74: // TUPLE
        this.#stack.push(new Tuple(this.#popToMark()));
        return true;
      case 0x61: // APPEND
        this.#append(this.#popMany(1));
        return true;
      case 0x65: // APPENDS
        this.#append(this.#popToMark());
        return true;
      case 0x73: // SETITEM
        this.#set(this.#popMany(2));
        return true;
      case 0x75: // SETITEMS
        this.#set(this.#popToMark());
        return true;
      default:
        return false;
    }
  }

  /** The memo: values that the pickle refers to again. */
  #remembered(opcode: number): boolean {
    switch (opcode) {
      case 0x71: // BINPUT
        this.#remember(this.#u8());
        return true;
      case 0x72: // LONG_BINPUT
        this.#remember(this.#u32());
        return true;
      case 0x94: // MEMOIZE
        this.#remember(this.#memo.size);
        return true;
      case 0x68: // BINGET
        this.#stack.push(this.#recall(this.#u8()));
        return true;
      case 0x6a: // LONG_BINGET
        this.#stack.push(this.#recall(this.#u32()));
        return true;
      default:
        return false;
    }
  }

  /** Globals, their calls, and storages. */
  #call(opcode: number): void {
    switch (opcode) {
      case 0x63: // GLOBAL
        this.#global(this.#line(), this.#line());
        return;
      case 0x93: {
        // STACK_GLOBAL
        const [module, name] = this.#popMany(2);
        if (typeof module !== "string" || typeof name !== "string") {
          throw new CallRefused("a global without a name");
        }
        this.#global(module, name);
        return;
      }
      case 0x52: {
        // REDUCE
        const [global, args] = this.#popMany(2);
        if (!(global instanceof Global) || !(args instanceof Tuple)) {
          throw new CallRefused(`a call of ${kindOf(global)}`);
        }
        this.#stack.push(called(global, args.items));
        return;
      }
      case 0x51: // BINPERSID
        this.#stack.push(storageOf(this.#pop()));
        return;
      case 0x62: {
        // BUILD: attributes of a dictionary (`_metadata`), and the byte order of a NumPy type.
        const [object, state] = this.#popMany(2);
        if (object instanceof ScalarType) {
          if (!(state instanceof Tuple) || state.items[1] === ">") {
            throw new CallRefused("a NumPy number in another byte order");
          }
        } else if (!(object instanceof Map)) throw new CallRefused(`a state of ${kindOf(object)}`);
        this.#stack.push(object);
        return;
      }
      default: {
        const hex = opcode.toString(16).padStart(2, "0");
        throw new CallRefused(`the opcode 0x${hex}, which data do not need`);
      }
    }
  }

  #protocol(version: number): boolean {
    if (version < 2 || version > 5) throw new CallRefused(`protocol ${version}, expected 2 to 5`);
    return true;
  }

  #global(module: string, name: string): void {
    const global = globalOf(module, name);
    if (global === undefined) {
      throw new CallRefused(
        `the name ${JSON.stringify(`${module}.${name}`.slice(0, 120))}, which is not known here ` +
          "and is not run: save a state dict of plain tensors, `torch.save(model.state_dict(), …)`",
      );
    }
    this.#stack.push(global);
  }

  #append(items: readonly Pickled[]): void {
    const list = this.#top();
    if (!Array.isArray(list)) throw new CallRefused(`${kindOf(list)} in the place of a list`);
    for (const item of items) list.push(item);
  }

  #set(items: readonly Pickled[]): void {
    const dict = this.#top();
    if (!(dict instanceof Map)) throw new CallRefused(`${kindOf(dict)} in the place of a dict`);
    if (items.length % 2 !== 0) throw new CallRefused("a key without a value");
    for (let i = 0; i < items.length; i += 2) {
      dict.set(keyOf(items[i]), items[i + 1] ?? null);
    }
  }

  #remember(at: number): void {
    if (this.#memo.size >= memoMax) throw new CallRefused(`more than ${memoMax} memo entries`);
    this.#memo.set(at, this.#top());
  }

  #recall(at: number): Pickled {
    const value = this.#memo.get(at);
    if (value === undefined) throw new CallRefused(`memo entry ${at}, which was never written`);
    return value;
  }

  #top(): Pickled {
    const value = this.#stack.at(-1);
    if (value === undefined || this.#stack.length <= (this.#marks.at(-1) ?? 0)) {
      throw new CallRefused("an empty stack in the place of a value");
    }
    return value;
  }

  #pop(): Pickled {
    const value = this.#top();
    this.#stack.pop();
    return value;
  }

  #popMany(count: number): Pickled[] {
    if (this.#stack.length - count < (this.#marks.at(-1) ?? 0)) {
      throw new CallRefused("an empty stack in the place of values");
    }
    return this.#stack.splice(this.#stack.length - count, count);
  }

  #popToMark(): Pickled[] {
    const mark = this.#marks.pop();
    if (mark === undefined)
      throw new CallRefused("the end of items without the mark at their beginning");
    return this.#stack.splice(mark);
  }

  /** Skips `count` bytes. Returns their offset. */
  #take(count: number): number {
    if (count > this.#bytes.length - this.at) throw new CallRefused("the end of the pickle");
    const at = this.at;
    this.at += count;
    return at;
  }

  #u8(): number {
    return this.#view.getUint8(this.#take(1));
  }

  #u32(): number {
    return this.#view.getUint32(this.#take(4), true);
  }

  #u64(): number {
    return Number(this.#view.getBigUint64(this.#take(8), true));
  }

  #slice(count: number): Uint8Array {
    if (count > textBytesMax) throw new CallRefused(`a text of ${count} bytes`);
    const at = this.#take(count);
    return this.#bytes.slice(at, at + count);
  }

  #text(count: number): string {
    return this.#decoded(this.#slice(count));
  }

  /** The bytes up to the end of the line. */
  #line(): string {
    const end = this.#bytes.indexOf(0x0a, this.at);
    if (end < 0) throw new CallRefused("the end of the pickle");
    const bytes = this.#slice(end - this.at);
    this.at++;
    return this.#decoded(bytes);
  }

  #decoded(bytes: Uint8Array): string {
    try {
      return this.#texts.decode(bytes);
    } catch {
      throw new CallRefused("a text that is not in UTF-8");
    }
  }

  /** A signed little-endian integer of `count` bytes. */
  #long(count: number): number | bigint {
    const bytes = this.#slice(count);
    let value = 0n;
    for (const [i, byte] of bytes.entries()) value |= BigInt(byte) << BigInt(8 * i);
    const integer = count === 0 ? 0n : BigInt.asIntN(8 * count, value);
    const small = Number(integer);
    return Number.isSafeInteger(small) ? small : integer;
  }
}

function keyOf(value: Pickled | undefined): PickledKey {
  switch (typeof value) {
    case "string":
    case "number":
    case "boolean":
    case "bigint":
      return value;
    default:
      throw new CallRefused(`${kindOf(value)} as the key of a dict`);
  }
}
