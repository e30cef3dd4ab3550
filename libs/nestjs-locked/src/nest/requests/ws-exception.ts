/** The client of a gateway: a Socket.IO socket, or a standard WebSocket, such as that of the `ws` package. */
interface WsClient {
  readonly readyState?: unknown;
  send?(message: string): unknown;
  emit?(event: string, content: object): unknown;
}

/**
 * Sends the same as Nest for a WsException, without importing @nestjs/websockets, which an application without gateways
 * does not have. A WebSocket of `ws` is also an EventEmitter, whose `emit` stays in this process, so it is checked
 * first.
 *
 * @returns false if this is another kind of client; nothing was sent
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
