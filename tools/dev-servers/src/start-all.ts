/**
 * Waits until all servers have started. If one of them does not start, the others are stopped.
 *
 * @throws what the first one that did not start was rejected with
 */
export async function startAll<Server extends { stop(): Promise<void> }>(
  starts: readonly Promise<Server>[],
): Promise<Server[]> {
  const ends = await Promise.allSettled(starts);
  const started = ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []));
  const failed = ends.find((end) => end.status === 'rejected');
  if (failed === undefined) return started;
  await Promise.all(started.map((server) => server.stop()));
  throw failed.reason;
}
