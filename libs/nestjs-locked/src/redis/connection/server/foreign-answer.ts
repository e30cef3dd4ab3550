import { quoted } from '../../../core/runtime/quoted.js';

/** How the two parsers of ioredis say that they cannot read an answer. */
const UNREADABLE = /Unknown RESP type \d+ "[^]+?"|Protocol error, got .+ as reply type byte/;

/** What ioredis says if it could not read what the server, or a sentinel, has sent; undefined if it could. */
export function unreadableIn({ message }: Error): string | undefined {
  return UNREADABLE.exec(message)?.[0];
}

/** The first line of an answer that is not in the protocol of Redis. */
export class ForeignAnswer extends Error {
  /** Whether it is the refusal of a server that expects TLS. */
  readonly isFromTls: boolean;

  /** @param text what the server has sent, as Latin-1 */
  constructor(text: string, options: ErrorOptions) {
    const [firstLine = ''] = text.split(/[\r\n]/);
    super(`it answered ${quoted(firstLine)}`, options);
    this.isFromTls = text.startsWith('\u0015\u0003'); // an alert
  }
}
