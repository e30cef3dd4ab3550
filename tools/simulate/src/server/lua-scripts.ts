import { Lua, LUA_REGISTRYINDEX, type LuaApi } from 'wasmoon-lua5.1';
import { LuaStack, type State } from './lua-stack.js';
import { ErrorReply, type Reply, StatusReply } from './reply.js';

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
  readonly #stack: LuaStack;
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
    this.#stack = new LuaStack(lua);
    const address: unknown = lua.global.address; // its type is not exported
    this.#state = address as State;
    this.#loadRedis();
  }

  run(script: string, keys: readonly string[], args: readonly string[], call: CallOfScript): Reply {
    const stack = this.#stack;
    const state = this.#state;
    const compiled = this.#compile(script);
    if (compiled instanceof ErrorReply) return compiled;
    this.#call = call;
    this.#push(keys);
    this.#api.lua_setglobal(state, 'KEYS');
    this.#push(args);
    this.#api.lua_setglobal(state, 'ARGV');
    stack.pushItem(state, LUA_REGISTRYINDEX, compiled);
    const reply = stack.call(state) ? this.#read(-1) : this.#error();
    stack.pop(state);
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
    const stack = this.#stack;
    const args: string[] = [];
    const count = stack.top(caller);
    for (let i = 1; i <= count; i += 1) {
      const type = stack.type(caller, i);
      if (type === NUMBER) args.push(numberText(stack.number(caller, i)));
      else if (type === STRING) args.push(stack.text(caller, i));
      else throw new TypeError('a command of a script has an argument that is no string or number');
    }
    return args;
  }

  #push(reply: Reply, state = this.#state): void {
    const stack = this.#stack;
    if (reply === null) stack.pushBoolean(state, false);
    else if (typeof reply === 'number') stack.pushNumber(state, reply);
    else if (typeof reply === 'string') stack.pushText(state, reply);
    else if (reply instanceof ErrorReply) this.#pushField(state, 'err', reply.message);
    else if (reply instanceof StatusReply) this.#pushField(state, 'ok', reply.text);
    else {
      stack.pushTable(state, reply.length, 0);
      reply.forEach((item, i) => {
        this.#push(item, state);
        stack.setItem(state, -2, i + 1);
      });
    }
  }

  #pushField(state: State, name: string, text: string): void {
    this.#stack.pushTable(state, 0, 1);
    this.#stack.pushText(state, text);
    this.#api.lua_setfield(state, -2, name);
  }

  /** The result of a script as Redis answers it: numbers lose their fraction, a table ends at the first nil. */
  #read(index: number): Reply {
    const stack = this.#stack;
    const state = this.#state;
    const type = stack.type(state, index);
    if (type === STRING) return stack.text(state, index);
    if (type === NUMBER) return Math.trunc(stack.number(state, index));
    if (type === BOOLEAN) return stack.boolean(state, index) ? 1 : null;
    if (type !== TABLE) return null;
    const table = index < 0 ? stack.top(state) + 1 + index : index;
    const error = this.#field(table, 'err');
    if (error !== undefined) return new ErrorReply(error);
    const status = this.#field(table, 'ok');
    if (status !== undefined) return new StatusReply(status);
    const items: Reply[] = [];
    for (;;) {
      stack.pushItem(state, table, items.length + 1);
      const isEnd = stack.type(state, -1) === NIL;
      if (!isEnd) items.push(this.#read(-1));
      stack.pop(state);
      if (isEnd) return items;
    }
  }

  #field(table: number, name: string): string | undefined {
    const stack = this.#stack;
    const state = this.#state;
    stack.pushField(state, table, name);
    const text = stack.type(state, -1) === STRING ? stack.text(state, -1) : undefined;
    stack.pop(state);
    return text;
  }

  /** What was raised: the table of a command's error, or a text. */
  #error(): ErrorReply {
    const stack = this.#stack;
    const top = stack.top(this.#state);
    const isTable = stack.type(this.#state, top) === TABLE;
    const text = isTable ? this.#field(top, 'err') : stack.text(this.#state, top);
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
