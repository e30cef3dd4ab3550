import { Redis } from 'ioredis';

/** A client of our own, which waits for as long as the server is away. */
export function adminClient(url: string): Redis {
  const admin = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 50 });
  admin.on('error', () => {}); // servers are taken away on purpose
  return admin;
}
