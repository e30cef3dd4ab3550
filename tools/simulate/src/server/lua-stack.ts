import type { Lua } from 'wasmoon-lua5.1';

export type State = number;

/** Functions of the WebAssembly that take and give numbers only. */
interface Exported {
  readonly HEAPU8: Uint8Array;
  readonly HEAPU32: Uint32Array;
  _malloc(bytes: number): number;
  _free(address: number): void;
  _lua_gettop(state: State): number;
  _lua_settop(state: State, index: number): void;
  _lua_type(state: State, index: number): number;
  _lua_tonumber(state: State, index: number): number;
  _lua_toboolean(state: State, index: number): number;
  _lua_tolstring(state: State, index: number, length: number): number;
  _lua_pushboolean(state: State, value: number): void;
  _lua_pushnumber(state: State, value: number): void;
  _lua_pushlstring(state: State, text: number, length: number): void;
  _lua_createtable(state: State, items: number, fields: number): void;
  _lua_rawget(state: State, table: number): void;
  _lua_rawgeti(state: State, table: number, index: number): void;
  _lua_rawseti(state: State, table: number, index: number): void;
  _lua_pcall(state: State, args: number, results: number, handler: number): number;
}

/** Longer texts get memory of their own. */
const SCRATCH_BYTES = 65_536;
const LONGEST_IN_SCRATCH = SCRATCH_BYTES / 3; // bytes of UTF-8 for one unit of a JavaScript string

/**
 * The stack of the interpreter, straight through the exports of its WebAssembly. What wasmoon offers looks up each
 * function by name and checks each argument, in every call: a tenth of a campaign.
 */
export class LuaStack {
  readonly #exported: Exported;
  readonly #scratch: number;
  readonly #length: number;
  readonly #encoder = new TextEncoder();
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });

  constructor(lua: Lua) {
    const exported: unknown = lua.luaApi.module; // its type is not exported
    this.#exported = exported as Exported;
    this.#scratch = this.#exported._malloc(SCRATCH_BYTES);
    this.#length = this.#exported._malloc(4);
  }

  top(state: State): number {
    return this.#exported._lua_gettop(state);
  }

  pop(state: State): void {
    this.#exported._lua_settop(state, -2);
  }

  type(state: State, index: number): number {
    return this.#exported._lua_type(state, index);
  }

  number(state: State, index: number): number {
    return this.#exported._lua_tonumber(state, index);
  }

  boolean(state: State, index: number): boolean {
    return this.#exported._lua_toboolean(state, index) !== 0;
  }

  text(state: State, index: number): string {
    const address = this.#exported._lua_tolstring(state, index, this.#length);
    const { HEAPU8: memory, HEAPU32: words } = this.#exported; // after the call, which may have moved them
    return this.#decoder.decode(
      memory.subarray(address, address + (words[this.#length >> 2] ?? 0)),
    );
  }

  pushBoolean(state: State, value: boolean): void {
    this.#exported._lua_pushboolean(state, value ? 1 : 0);
  }

  pushNumber(state: State, value: number): void {
    this.#exported._lua_pushnumber(state, value);
  }

  pushText(state: State, text: string): void {
    const exported = this.#exported;
    if (text.length <= LONGEST_IN_SCRATCH) {
      const { written } = this.#encoder.encodeInto(
        text,
        exported.HEAPU8.subarray(this.#scratch, this.#scratch + SCRATCH_BYTES),
      );
      exported._lua_pushlstring(state, this.#scratch, written);
      return;
    }
    const bytes = this.#encoder.encode(text);
    const address = exported._malloc(bytes.length);
    exported.HEAPU8.set(bytes, address);
    exported._lua_pushlstring(state, address, bytes.length);
    exported._free(address);
  }

  pushTable(state: State, items: number, fields: number): void {
    this.#exported._lua_createtable(state, items, fields);
  }

  /** Pushes an item of the table at `table`. */
  pushItem(state: State, table: number, index: number): void {
    this.#exported._lua_rawgeti(state, table, index);
  }

  pushField(state: State, table: number, name: string): void {
    this.pushText(state, name);
    this.#exported._lua_rawget(state, table);
  }

  /** Pops what is on top, as an item of the table at `table`. */
  setItem(state: State, table: number, index: number): void {
    this.#exported._lua_rawseti(state, table, index);
  }

  /** Calls the function on top; `false` if it raised what is on top then. */
  call(state: State): boolean {
    return this.#exported._lua_pcall(state, 0, 1, 0) === 0;
  }
}
