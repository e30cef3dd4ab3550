import type { IncomingMessage } from 'node:http';
import { Refusal } from './refusal.js';

/** A key, a copy of it and an id are less. */
const MOST_BYTES = 16_384;

/** The body of a request, which a parser may have read already, as JSON, text or bytes. @throws Refusal */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  // Pages of other sites cannot send this type without being asked first whether they may.
  const type = request.headers['content-type']?.split(';')[0]?.trim().toLowerCase();
  if (type !== 'application/json') throw new Refusal(415, 'The body must be JSON.');
  const { body } = request as { body?: unknown };
  if (typeof body === 'string' || Buffer.isBuffer(body)) return parsed(body.toString());
  if (body !== undefined) return body;
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes <= MOST_BYTES) chunks.push(chunk); // the rest is read, because the answer would be lost otherwise
  }
  if (bytes > MOST_BYTES) throw new Refusal(413, 'The body is too long.');
  return parsed(Buffer.concat(chunks).toString());
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Refusal(400, 'The body is not JSON.');
  }
}
