import type { ExecutionContext } from '@nestjs/common';
import { KeyTemplate } from '../../core/keys/key-template.js';
import { assertLockKey } from '../../core/keys/lock-key.js';
import { LockConfigError, LockKeyError } from '../../core/lock.errors.js';
import type { LockKeys } from '../../core/lock.options.js';
import { shownValue } from '../../core/runtime/shown-value.js';
import {
  ALL_ROOTS,
  isRequestKind,
  KIND_NAMES,
  MISSING_ROOTS,
  REQUEST_ROOTS,
  requestIn,
  type RequestKind,
} from './request-roots.js';

/**
 * Builds the key from any part of a request. The first argument is the HTTP request, the request in the GraphQL context
 * (undefined if it has none), the payload of a microservice message, or the client of a gateway.
 */
export type RequestKey = (request: never, context: ExecutionContext) => LockKeys;

/** Provides an interceptor with the key of a request. */
export interface KeyOfRequest {
  /** @throws LockConfigError if the key is built from a part that requests of this kind do not have */
  assertFits(kind: RequestKind, route: string): void;
  /**
   * @param route names the handler in messages: `StockController.take`
   * @throws LockKeyError if a value is missing or unfit · LockConfigError as `assertFits`
   */
  keysOf(context: ExecutionContext, route: string): LockKeys;
}

/** @throws LockConfigError for an invalid template, or a placeholder that does not begin with a part of a request */
export function keyOfRequest(key: string | RequestKey): KeyOfRequest {
  if (typeof key === 'string') return new RequestKeyTemplate(key);
  if (typeof key === 'function') return new RequestKeyFunction(key);
  throw new LockConfigError(
    `Invalid key of LockInterceptor: ${shownValue(key)} must be a template such as 'stock:<params.id>', or a function${remedyFor(key)}`,
  );
}

function remedyFor(key: unknown): string {
  if (key === undefined) return ": write @UseInterceptors(LockInterceptor('stock:<params.id>'))";
  return Array.isArray(key) ? ', which may return several keys' : '';
}

class RequestKeyTemplate implements KeyOfRequest {
  readonly #text: string;
  readonly #shown: string;
  readonly #placeholders: KeyTemplate['placeholders'];
  /** One for each route, so that messages name the route. */
  readonly #ofRoute = new Map<string, KeyTemplate>();

  constructor(text: string) {
    this.#shown = `LockInterceptor('${text}')`;
    // Node converts header names to lower case.
    this.#text = text.replaceAll(/<headers\.[^<>]*>/g, (placeholder) => placeholder.toLowerCase());
    const template = new KeyTemplate(this.#text, 'LockInterceptor', ALL_ROOTS);
    template.assertFilledIn(({ root, path }) => {
      if (ALL_ROOTS.includes(root)) return path.length > 0;
      return /^id$|Id$/.test(root) && `<params.${root}>`; // nothing is called so but what has a value
    });
    this.#placeholders = template.placeholders;
    for (const { text: shown, root } of this.#placeholders) {
      if (ALL_ROOTS.includes(root)) continue;
      throw new LockConfigError(
        `Invalid key template '${text}' of LockInterceptor: ${shown} must begin with ${listed(ALL_ROOTS)}, as in <params.id>; use a function for anything else`,
      );
    }
  }

  assertFits(kind: RequestKind, route: string): void {
    const roots = Object.keys(REQUEST_ROOTS[kind]);
    const misfit = this.#placeholders.find(({ root }) => !roots.includes(root));
    if (misfit === undefined) return;
    throw new LockConfigError(
      `Cannot lock ${route} with ${this.#shown}: ${KIND_NAMES[kind]} has no '${misfit.root}'; begin with ${listed(roots)}, or use a function`,
    );
  }

  keysOf(context: ExecutionContext, route: string): LockKeys {
    const kind = context.getType<string>();
    if (!isRequestKind(kind)) {
      throw new LockConfigError(
        `Cannot lock ${route} with ${this.#shown}: the parts of a '${kind}' request are unknown; use a function`,
      );
    }
    const template = this.#templateFor(route, kind);
    const parts = new Map(
      this.#placeholders.map(({ root }) => [root, REQUEST_ROOTS[kind][root]?.(context)]),
    );
    try {
      this.#assertPresent(parts, route);
      return template.render((root) => parts.get(root));
    } catch (cause) {
      if (!(cause instanceof LockKeyError)) throw cause;
      throw new LockKeyError(
        `${cause.message}; for an answer of your own to such a request, use a function that throws, such as a BadRequestException`,
        undefined,
        { cause },
      );
    }
  }

  #assertPresent(parts: ReadonlyMap<string, unknown>, route: string): void {
    for (const { text, root } of this.#placeholders) {
      const part = parts.get(root);
      if (part !== undefined && part !== null) continue;
      throw new LockKeyError(
        `Cannot build a lock key from '${this.#text}' of ${route}: ${text} cannot be read, ${root} is ${part}: ${MISSING_ROOTS[root]}`,
      );
    }
  }

  #templateFor(route: string, kind: RequestKind): KeyTemplate {
    // A method may be both an HTTP route and a message handler.
    const name = `${kind} ${route}`;
    let template = this.#ofRoute.get(name);
    if (template === undefined) {
      this.assertFits(kind, route);
      template = new KeyTemplate(this.#text, route);
      this.#ofRoute.set(name, template);
    }
    return template;
  }
}

class RequestKeyFunction implements KeyOfRequest {
  readonly #key: RequestKey;

  constructor(key: RequestKey) {
    this.#key = key;
  }

  assertFits(): void {
    // Which parts the function reads is unknown.
  }

  /**
   * An error that the function itself throws, such as a BadRequestException, is meant for the client and is passed on.
   */
  keysOf(context: ExecutionContext, route: string): LockKeys {
    try {
      const keys: unknown = this.#key(requestIn(context) as never, context);
      for (const key of Array.isArray(keys) ? (keys as unknown[]) : [keys]) assertLockKey(key);
      return keys as LockKeys;
    } catch (cause) {
      if (!(cause instanceof LockKeyError)) throw cause;
      throw new LockKeyError(
        `Cannot build a lock key with the key function of LockInterceptor on ${route}: ${cause.message}`,
        undefined,
        { cause },
      );
    }
  }
}

function listed(roots: readonly string[]): string {
  return `${roots.slice(0, -1).join(', ')}${roots.length > 1 ? ' or ' : ''}${roots.at(-1)}`;
}
