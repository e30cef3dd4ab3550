/** The client of a gateway: a Socket.IO socket, or a WebSocket as the standard and the package `ws` have it. */
interface WsClient {
  readonly readyState?: unknown;
  send?(message: string): unknown;
  emit?(event: string, content: object): unknown;
}

/**
 * Sends what Nest sends for a WsException, without @nestjs/websockets, which an application without gateways does not
 * have. A WebSocket of `ws` is an EventEmitter as well, but its `emit` does not leave this process, so it is recognized
 * first.
 *
 * @returns false if this is another kind of client, and nothing was sent
 */
export function sendWsException(client: WsClient, content: object): boolean {
  if (typeof client.readyState === 'number' && client.send !== undefined) {
    client.send(JSON.stringify({ event: 'exception', data: content }));
    return true;
  }
  if (client.emit === undefined) return false;
  client.emit('exception', content);
  return true;
}
