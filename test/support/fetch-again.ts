/**
 * Asks a second time if the connection was closed on the way: the server of the shared servers closes those that were
 * idle for some seconds, perhaps in the moment in which a request is sent on one.
 */
export async function fetchAgain(url: string): Promise<Response> {
  try {
    return await fetch(url);
  } catch {
    return fetch(url);
  }
}
