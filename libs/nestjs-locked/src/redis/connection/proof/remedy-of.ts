import {
  isBlocked,
  isNoSentinel,
  isOfReplica,
  isWithoutSlots,
  knowsNoMaster,
  lacksRights,
  missesReplicas,
  refusesWrites,
} from '../../scripts/reply-error.js';
import { FewReplicas } from './replica-proof.js';
import { hasOutdatedCertificate } from './wrong-server.js';

/** The remedy if too few replicas acknowledge what is written. */
export const START_REPLICAS =
  'start the replicas, see connected_slaves in INFO replication, or ask for fewer in waitReplicas';

/**
 * The remedy of a refusal, for a message; undefined if only Redis' own message has it.
 * @param rights what the Redis user needs, in the words of ACL SETUSER
 */
export function remedyOf(refusal: unknown, rights: () => string): string | undefined {
  if (lacksRights(refusal))
    return `give the Redis user these keys, channels and commands: ACL SETUSER <user> ${rights()}`;
  if (refusesWrites(refusal))
    return 'give Redis what it needs to write: memory (maxmemory), or a disk to save to';
  if (missesReplicas(refusal))
    return 'start the replicas that min-replicas-to-write requires, see connected_slaves in INFO replication';
  if (refusal instanceof FewReplicas) return START_REPLICAS;
  if (isNoSentinel(refusal))
    return "correct 'sentinels' in 'connection': that server is not a sentinel (26379 is their usual port); for a server without sentinels, write { host, port }";
  if (knowsNoMaster(refusal))
    return "correct name in 'connection' (SENTINEL MASTERS lists the names)";
  if (hasOutdatedCertificate(refusal))
    return 'renew the certificate of the server, or correct the clock of this machine';
  if (isOfReplica(refusal))
    return "name the master in 'connection': INFO replication tells its address there";
  if (isWithoutSlots(refusal))
    return 'give the slots to the nodes with redis-cli --cluster create, or --cluster fix';
  if (isBlocked(refusal))
    return 'end the script or function that blocks Redis (SCRIPT KILL, FUNCTION KILL)';
  return undefined;
}
