import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { MetadataScanner, ModulesContainer } from '@nestjs/core';

/** The metadata of `@MessagePattern` and `@EventPattern`, and the handler type of an event. */
const PATTERNS = 'microservices:pattern';
const HANDLER_TYPE = 'microservices:handler_type';
const EVENT = 2;

/** For all applications of the process, because an exception filter does not learn whose request it gets. */
const known = { messages: new Set<string>(), events: new Set<string>() };

/**
 * Collects the patterns of all controllers once, at the start. To an exception filter, an event looks like a message,
 * but nobody waits for an answer.
 */
@Injectable()
export class EventPatterns implements OnModuleInit {
  readonly #modules: ModulesContainer;

  constructor(@Inject(ModulesContainer) modules: ModulesContainer) {
    this.#modules = modules;
  }

  onModuleInit(): void {
    const scanner = new MetadataScanner();
    for (const module of this.#modules.values()) {
      for (const { metatype } of module.controllers.values()) {
        const prototype = (metatype as { readonly prototype: Record<string, object> }).prototype;
        for (const name of scanner.getAllMethodNames(prototype)) {
          const method = prototype[name] as object;
          const patterns: unknown = Reflect.getMetadata(PATTERNS, method);
          if (!Array.isArray(patterns)) continue;
          const isEvent = Reflect.getMetadata(HANDLER_TYPE, method) === EVENT;
          const found = isEvent ? known.events : known.messages;
          for (const pattern of patterns) found.add(canonical(pattern));
        }
      }
    }
  }
}

/** Each transport names the pattern differently. gRPC calls have none of these, and are always answered. */
export interface RpcContext {
  getPattern?(): string;
  getChannel?(): string;
  getSubject?(): string;
  getTopic?(): string;
}

/**
 * The pattern of an event; undefined for a message, whose sender gets an answer. A pattern known as neither, because a
 * handler uses wildcards, counts as an event: an unnecessary line in the log is better than none.
 */
export function eventPatternOf(context: RpcContext | undefined): string | undefined {
  const pattern =
    context?.getPattern?.() ??
    context?.getChannel?.() ??
    context?.getSubject?.() ??
    context?.getTopic?.();
  if (pattern === undefined) return undefined;
  const asKnown = canonical(pattern);
  return known.events.has(asKnown) || !known.messages.has(asKnown) ? pattern : undefined;
}

/** `{ cmd: 'take' }` arrives as JSON, with its properties in the sender's order. */
function canonical(pattern: unknown): string {
  return JSON.stringify(parsed(pattern), (_, value: unknown) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  );
}

function parsed(pattern: unknown): unknown {
  if (typeof pattern === 'number') return String(pattern);
  if (typeof pattern !== 'string' || !pattern.startsWith('{')) return pattern;
  try {
    return JSON.parse(pattern);
  } catch {
    return pattern; // a string that begins like an object
  }
}
