/** An error that a command was answered with, as opposed to one thrown. */
export class ErrorReply {
  constructor(readonly message: string) {}
}

/** A simple string, such as OK. */
export class StatusReply {
  constructor(readonly text: string) {}
}

export type Reply = string | number | null | StatusReply | ErrorReply | readonly Reply[];

export const OK = new StatusReply('OK');
