interface Channel {
  subscribe(listener: (message: unknown) => void): void;
  unsubscribe(listener: (message: unknown) => void): void;
}

/** Listens to a channel of Node, whose messages are known to be of this type. @returns ends that */
export function subscribed<Message>(
  channel: Channel,
  listener: (message: Message) => void,
): () => void {
  const listen = listener as (message: unknown) => void;
  channel.subscribe(listen);
  return () => channel.unsubscribe(listen);
}
