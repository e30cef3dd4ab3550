import type { IncomingMessage, ServerResponse } from 'node:http';

/** Nothing but our own files runs, and no other page may show, embed or post to this one. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const HEADERS = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
};

/** Writes the head of an answer; what the application has set before is kept. */
export function writeHead(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
): void {
  response.writeHead(status, { ...HEADERS, ...headers });
}

/** Answers with data, which nobody may keep. */
export function sendJson(response: ServerResponse, status: number, data: unknown): void {
  writeHead(response, status, {
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
  });
  response.end(JSON.stringify(data));
}

/** Answers with a file, or that the browser has it already. */
export function sendFile(
  { headers }: IncomingMessage,
  response: ServerResponse,
  file: { readonly type: string; readonly text: string; readonly etag: string },
): void {
  const { type, text, etag } = file;
  const isKnown = headers['if-none-match'] === etag;
  const about = { 'content-type': type, 'cache-control': 'private, no-cache', etag };
  writeHead(response, isKnown ? 304 : 200, about);
  response.end(isKnown ? undefined : text);
}
