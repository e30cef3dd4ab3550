import { Lua, LUA_REGISTRYINDEX, type LuaApi } from 'wasmoon-lua5.1';
import { ErrorReply, type Reply, StatusReply } from './reply.js';

type State = number;

/** Lua's own numbers of its types. */
const NIL = 0;
const BOOLEAN = 1;
const NUMBER = 3;
const STRING = 4;
const TABLE = 5;

/** What a script finds as `redis`. An error is raised by Lua itself: nothing is thrown across the interpreter. */
const REDIS = `
local call = ...
redis = {
  pcall = call,
  call = function(...)
    local reply = call(...)
    if type(reply) == 'table' and reply.err then error(reply, 0) end
    return reply
  end,
  error_reply = function(message) return { err = message } end,
  status_reply = function(message) return { ok = message } end,
}`;

/** Called for each command of a script. */
export type CallOfScript = (name: string, args: readonly string[]) => Reply;

/**
 * Runs scripts in the interpreter that Redis has, Lua 5.1. They run one at a time and share no state but what they
 * store, so one interpreter serves all servers.
 */
export class LuaScripts {
  readonly #api: LuaApi;
  readonly #state: State;
  /** Compiled scripts, by their text. */
  readonly #compiled = new Map<string, number>();
  #call: CallOfScript = () => null;

  /** @param interpreter the address of its WebAssembly, which a browser must be given */
  static async create(interpreter?: string): Promise<LuaScripts> {
    const options = interpreter === undefined ? {} : { customWasmUri: interpreter };
    return new LuaScripts(await Lua.create(options));
  }

  private constructor(lua: Lua) {
    this.#api = lua.luaApi;
    const address: unknown = lua.global.address; // its type is not exported
    this.#state = address as State;
    this.#loadRedis();
  }

  run(script: string, keys: readonly string[], args: readonly string[], call: CallOfScript): Reply {
    const api = this.#api;
    const state = this.#state;
    const compiled = this.#compile(script);
    if (compiled instanceof ErrorReply) return compiled;
    this.#call = call;
    this.#push(keys);
    api.lua_setglobal(state, 'KEYS');
    this.#push(args);
    api.lua_setglobal(state, 'ARGV');
    api.lua_rawgeti(state, LUA_REGISTRYINDEX, compiled);
    const hasFailed = api.lua_pcall(state, 0, 1, 0) !== 0;
    const reply = hasFailed ? this.#error() : this.#read(-1);
    api.lua_settop(state, -2);
    return reply;
  }

  #loadRedis(): void {
    const api = this.#api;
    const state = this.#state;
    const answer = (caller: State): number => {
      const [name = '', ...args] = this.#argumentsOf(caller);
      this.#push(this.#call(name, args), caller);
      return 1;
    };
    const pointer = (
      api.module as unknown as { addFunction(f: (state: State) => number, type: string): number }
    ).addFunction(answer, 'ii');
    this.#load(REDIS);
    api.lua_pushcclosure(state, pointer, 0);
    api.lua_call(state, 1, 0);
  }

  #load(script: string): void {
    const bytes = Buffer.byteLength(script);
    const result = this.#api.luaL_loadbuffer(this.#state, script, bytes, '@user_script');
    if (Number(result) === 0) return;
    const reason = this.#api.lua_tolstring(this.#state, -1, null);
    this.#api.lua_settop(this.#state, -2);
    throw new SyntaxError(reason);
  }

  #compile(script: string): number | ErrorReply {
    const before = this.#compiled.get(script);
    if (before !== undefined) return before;
    try {
      this.#load(script);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return new ErrorReply(`ERR Error compiling script (new function): ${reason}`);
    }
    const compiled = this.#api.luaL_ref(this.#state, LUA_REGISTRYINDEX);
    this.#compiled.set(script, compiled);
    return compiled;
  }

  #argumentsOf(caller: State): string[] {
    const api = this.#api;
    const args: string[] = [];
    for (let i = 1; i <= api.lua_gettop(caller); i += 1) {
      const type = Number(api.lua_type(caller, i));
      if (type === NUMBER) args.push(numberText(api.lua_tonumber(caller, i)));
      else if (type === STRING) args.push(api.lua_tolstring(caller, i, null));
      else throw new TypeError('a command of a script has an argument that is no string or number');
    }
    return args;
  }

  #push(reply: Reply, state = this.#state): void {
    const api = this.#api;
    if (reply === null) api.lua_pushboolean(state, 0);
    else if (typeof reply === 'number') api.lua_pushnumber(state, reply);
    else if (typeof reply === 'string') api.lua_pushstring(state, reply);
    else if (reply instanceof ErrorReply) this.#pushField(state, 'err', reply.message);
    else if (reply instanceof StatusReply) this.#pushField(state, 'ok', reply.text);
    else {
      api.lua_createtable(state, reply.length, 0);
      reply.forEach((item, i) => {
        this.#push(item, state);
        api.lua_rawseti(state, -2, i + 1);
      });
    }
  }

  #pushField(state: State, name: string, text: string): void {
    this.#api.lua_createtable(state, 0, 1);
    this.#api.lua_pushstring(state, text);
    this.#api.lua_setfield(state, -2, name);
  }

  /** The result of a script as Redis answers it: numbers lose their fraction, a table ends at the first nil. */
  #read(index: number): Reply {
    const api = this.#api;
    const state = this.#state;
    const type = Number(api.lua_type(state, index));
    if (type === STRING) return api.lua_tolstring(state, index, null);
    if (type === NUMBER) return Math.trunc(api.lua_tonumber(state, index));
    if (type === BOOLEAN) return api.lua_toboolean(state, index) === 0 ? null : 1;
    if (type !== TABLE) return null;
    const error = this.#field(index, 'err');
    if (error !== undefined) return new ErrorReply(error);
    const status = this.#field(index, 'ok');
    if (status !== undefined) return new StatusReply(status);
    const table = index < 0 ? api.lua_gettop(state) + 1 + index : index;
    const items: Reply[] = [];
    for (let i = 1; ; i += 1) {
      api.lua_rawgeti(state, table, i);
      const isEnd = Number(api.lua_type(state, -1)) === NIL;
      if (!isEnd) items.push(this.#read(-1));
      api.lua_settop(state, -2);
      if (isEnd) return items;
    }
  }

  #field(index: number, name: string): string | undefined {
    const api = this.#api;
    const state = this.#state;
    const table = index < 0 ? api.lua_gettop(state) + 1 + index : index;
    api.lua_getfield(state, table, name);
    const isText = Number(api.lua_type(state, -1)) === STRING;
    const text = isText ? api.lua_tolstring(state, -1, null) : undefined;
    api.lua_settop(state, -2);
    return text;
  }

  /** What was raised: the table of a command's error, or a text. */
  #error(): ErrorReply {
    const isTable = Number(this.#api.lua_type(this.#state, -1)) === TABLE;
    const text = isTable ? this.#field(-1, 'err') : this.#api.lua_tolstring(this.#state, -1, null);
    return new ErrorReply(text ?? 'ERR the script has raised something that is no text');
  }
}

/** Redis gives a command the number with 17 digits. The scripts pass whole numbers only. */
function numberText(number: number): string {
  if (Number.isSafeInteger(number)) return String(number);
  throw new RangeError(
    `a command of a script has the argument ${number}, which is no whole number`,
  );
}
