import {
  isBlocked,
  knowsNoMaster,
  lacksRights,
  missesReplicas,
  refusesWrites,
} from '../../scripts/reply-error.js';
import { hasOutdatedCertificate } from './wrong-server.js';

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
  if (knowsNoMaster(refusal))
    return "correct name in 'connection' (SENTINEL MASTERS lists the names)";
  if (hasOutdatedCertificate(refusal))
    return 'renew the certificate of the server, or correct the clock of this machine';
  if (isBlocked(refusal))
    return 'end the script or function that blocks Redis (SCRIPT KILL, FUNCTION KILL)';
  return undefined;
}
