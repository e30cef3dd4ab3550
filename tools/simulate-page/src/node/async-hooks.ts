/**
 * Stands in for `node:async_hooks`. Browsers have no async context, so each reaction of a promise runs in the context
 * in which `then` was called, as in Node. That holds for `await` too, because the bundler turns async functions into
 * generators that call `then`.
 */

/** The values of all storages; never changed, so that it can be kept. */
type Context = ReadonlyMap<object, unknown>;

let current: Context = new Map();

function within<R>(context: Context, run: () => R): R {
  const before = current;
  current = context;
  try {
    return run();
  } finally {
    current = before;
  }
}

/** Keeps the present context for a function that runs later. */
export function kept<Args extends unknown[], R>(run: (...args: Args) => R): (...args: Args) => R {
  const context = current;
  return (...args) => within(context, () => run(...args));
}

// eslint-disable-next-line @typescript-eslint/unbound-method -- called with the promise below
const { then } = Promise.prototype;

Promise.prototype.then = function (this: Promise<unknown>, fulfilled, rejected) {
  return then.call(
    this,
    typeof fulfilled === 'function' ? kept(fulfilled) : fulfilled,
    typeof rejected === 'function' ? kept(rejected) : rejected,
  ) as Promise<never>;
};

export class AsyncLocalStorage<T> {
  static snapshot(): <R>(run: () => R) => R {
    const context = current;
    return (run) => within(context, run);
  }

  getStore(): T | undefined {
    return current.get(this) as T | undefined;
  }

  run<R, Args extends unknown[]>(store: T, run: (...args: Args) => R, ...args: Args): R {
    return within(new Map([...current, [this, store]]), () => run(...args));
  }

  exit<R, Args extends unknown[]>(run: (...args: Args) => R, ...args: Args): R {
    const context = new Map(current);
    context.delete(this);
    return within(context, () => run(...args));
  }

  enterWith(store: T): void {
    current = new Map([...current, [this, store]]);
  }
}

export class AsyncResource {
  readonly #context = current;

  runInAsyncScope<R>(run: (...args: never[]) => R, self?: unknown, ...args: unknown[]): R {
    return within(this.#context, () => Reflect.apply(run, self, args) as R);
  }
}
