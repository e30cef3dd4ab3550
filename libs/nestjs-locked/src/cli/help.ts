export const HELP = `Usage: npx nestjs-locked <command> [options]

Shows who holds which lock, and ends a hold. It takes no lock and leaves nothing in Redis.

  ls [PATTERN]       the locks that are held, the most wanted ones first; PATTERN as in 'stock:*'
  watch [PATTERN]    the same, again and again: a table on a terminal, otherwise one line for each change
  inspect KEY        one lock
  graph [PATTERN]    who waits for whom: the calls that hold a lock which others want, and wait for another one
  release KEY --yes  takes a lock away from its holder, whose signal aborts; the next caller enters a second later.
                     Without --yes, it only says who would lose it

  --lease ID         release: only from the lease that inspect has named so, and from nobody who has come since

  --redis URL        redis://user:password@host:6379/0, rediss:// for TLS. Default: the variable REDIS_URL,
                     which the list of processes does not show
  --prefix TEXT      the keyPrefix of the application (default: lock:)
  --json             one JSON object per line
  --help             this text

Keys are written as in the application, without the keyPrefix and the braces that they have in Redis.

  HOLDER    host and process id; (kept) by holdAtLeastMs, (revoked) by an operator just now, (foreign): the key was
            written by something else
  CALL      the call for which the process got the lease: its label, or its method
  SINCE     when that process asked for it, in UTC by its own clock; its calls may have handed it on since. Only
            inspect asks the process which of its calls has the key now, and since when
  LEASE     when it ends if it is not renewed, which the holder does while it works
  WAITING   how many processes wait, however many calls wait in each
  HOLDS     the locks of a call that waits, and of the calls around it; "deadlock" if these calls wait for each other

Redis: one server, the master behind Sentinel, or any node of a Redis Cluster, whose other nodes are found. If Node does
not know the authority of a certificate, name its file in NODE_EXTRA_CA_CERTS. To look, the Redis user needs
  ~lock:* +get +pttl +zcard +scan, and for a Cluster +cluster|slots; since Redis 7, %R~lock:* is enough
and to release, for graph, or for the present call with inspect, what the user of the application has.

All keys of the database are scanned, in short steps. A look at 10,000 locks takes about a second, and a sixth of that
in Redis. After each look, watch pauses for four times as long as that took, and for a second at least.

Exit code: 0 done, 1 not held or not confirmed, 2 wrong use, 3 Redis has failed or refused.`;
