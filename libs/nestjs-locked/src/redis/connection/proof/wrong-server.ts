import { isObject } from '../../../core/arguments.js';
import { LockConfigError } from '../../../core/lock.errors.js';
import { ForeignAnswer, unreadableIn } from '../server/foreign-answer.js';
import { reasonOf } from '../server/reason-of.js';

/** A certificate that Node checks up to an authority that it does not know, or up to none. */
const UNTRUSTED = new Set([
  'CERT_UNTRUSTED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'INVALID_CA',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

const OUTDATED = new Set(['CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID']);

/**
 * The error if what answers at an address is not the server that the connection expects, so that another option is
 * needed; undefined if the failure has another reason.
 *
 * @param server the address, for the message
 */
export function wrongServer(failure: unknown, server: string): LockConfigError | undefined {
  for (const error of chainOf(failure)) {
    const problem = problemOf(error, server);
    if (problem !== undefined) return new LockConfigError(problem, undefined, { cause: failure });
  }
  return undefined;
}

/** Whether the certificate of the server has expired, or is not valid yet. */
export function hasOutdatedCertificate(failure: unknown): boolean {
  return [...chainOf(failure)].some(({ code }) => OUTDATED.has(code ?? ''));
}

interface NodeError extends Error {
  readonly code?: string;
  /** The certificate that was refused. */
  readonly cert?: { readonly subjectaltname?: string };
}

/** The errors of a cluster and of sentinels have the one of the socket as their cause. */
function* chainOf(failure: unknown): Iterable<NodeError> {
  for (let error = failure; isObject(error); error = (error as NodeError).cause)
    yield error as NodeError;
}

function problemOf(error: NodeError, server: string): string | undefined {
  const { code = '', message } = error;
  const reason = reasonOf(error);
  if (error instanceof ForeignAnswer && error.isFromTls)
    return `${server} expects TLS: write rediss:// instead of redis://, or add tls: {} to the options in 'connection'`;
  const unreadable = error instanceof ForeignAnswer ? reason : unreadableIn(error);
  if (unreadable !== undefined)
    return `What answers at ${server} is not Redis: ${unreadable}; correct host and port in 'connection' (6379 is the usual port of Redis)`;
  if (UNTRUSTED.has(code))
    return `The certificate of ${server} is signed by no authority that Node knows: ${reason}; pass the certificate of that authority: connection: { host, port, tls: { ca } }, or name its file in NODE_EXTRA_CA_CERTS`;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return `The certificate of ${server} is for ${error.cert?.subjectaltname ?? 'another host'}: ${reason}; connect to what it names, or pass that name: connection: { host, port, tls: { servername } }`;
  if (/CERTIFICATE_REQUIRED/.test(code))
    return `${server} asks for a certificate of the client: ${reason}; pass one: connection: { host, port, tls: { cert, key } }`;
  if (/wrong version number|packet length too long/.test(message))
    return `${server} does not speak TLS: ${reason}; write redis:// instead of rediss://, or name the port that does`;
  if (code.startsWith('ERR_OSSL_'))
    return `The option tls in 'connection' cannot be used: ${reason}; ca, cert and key must be the texts of PEM files, and key must belong to cert`;
  return undefined;
}
