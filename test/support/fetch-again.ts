/**
 * Fetches, and retries once if the connection was closed. The shared servers' HTTP server closes connections that have
 * been idle for a few seconds, possibly while a request is being sent.
 */
export async function fetchAgain(url: string): Promise<Response> {
  try {
    return await fetch(url);
  } catch {
    return fetch(url);
  }
}
