/** An error that a command was answered with, as opposed to one thrown. */
export class ErrorReply {
  constructor(readonly message: string) {}
}

/** A simple string, such as OK. */
export class StatusReply {
  constructor(readonly text: string) {}
}

/** @param command in small letters */
export function noRight(command: string): ErrorReply {
  return new ErrorReply(`NOPERM User app has no permissions to run the '${command}' command`);
}

/** The same to a script. */
export function noRightInScript(command: string): ErrorReply {
  return new ErrorReply(
    `ERR ACL failure in script: User app has no permissions to run the '${command}' command`,
  );
}

export const FULL = new ErrorReply("OOM command not allowed when used memory > 'maxmemory'.");

/** What a master answers that has too few replicas (`min-replicas-to-write`); one that was demoted has another name. */
export const NO_REPLICAS = new ErrorReply('NOREPLICAS Not enough good replicas to write.');

export type Reply = string | number | null | StatusReply | ErrorReply | readonly Reply[];

export const OK = new StatusReply('OK');
