/** The time from an event that begins something to the next one of the same lane that ends it. */
export interface Span {
  readonly lane: string;
  readonly from: number;
  readonly until: number;
}

/** @param end the end of what nothing has ended */
export function spansIn<Kind extends string>(
  events: readonly { readonly at: number; readonly lane: string; readonly kind: Kind }[],
  end: number,
  begin: NoInfer<Kind>,
  ends: readonly NoInfer<Kind>[],
): (Span & { readonly endedBy: Kind | undefined })[] {
  const open = new Map<string, number>();
  const ended = events.flatMap(({ at, lane, kind }) => {
    const from = open.get(lane);
    const isEnd = from !== undefined && ends.includes(kind);
    if (isEnd) open.delete(lane);
    if (kind === begin && !open.has(lane)) open.set(lane, at);
    return isEnd ? [{ lane, from, until: at, endedBy: kind }] : [];
  });
  const others = [...open].map(([lane, from]) => ({ lane, from, until: end, endedBy: undefined }));
  return [...ended, ...others];
}
