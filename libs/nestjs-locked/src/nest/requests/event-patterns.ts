import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { MetadataScanner, ModulesContainer } from '@nestjs/core';

/** Where `@MessagePattern` and `@EventPattern` write what they stand for; an event has this type. */
const PATTERNS = 'microservices:pattern';
const HANDLER_TYPE = 'microservices:handler_type';
const EVENT = 2;

/** Of all applications of the process: an exception filter is not told whose request it is given. */
const known = { messages: new Set<string>(), events: new Set<string>() };

/**
 * Looks through the controllers once, at the start. What an exception filter gets of an event looks the same as what it
 * gets of a message, but nobody waits for an answer.
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

/** The contexts of the transports name it differently. Calls of gRPC have none of these, and are always answered. */
interface RpcContext {
  getPattern?(): string;
  getChannel?(): string;
  getSubject?(): string;
  getTopic?(): string;
}

/**
 * The pattern of an event; undefined for a message, whose sender gets an answer. What is known as neither, because a
 * handler has a pattern with wildcards, counts as an event: a line too many in the log is better than none.
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

/** `{ cmd: 'take' }` arrives as JSON, its properties in the order of the sender. */
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
    return pattern; // a text that begins like an object
  }
}
