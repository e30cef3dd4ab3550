/** One try of a request to get the votes of enough nodes. */
export interface Round {
  readonly token: string;
  /** Whether the round before had the same token: a node may have voted for it then. */
  readonly isRepetition: boolean;
}

/**
 * The rounds of one request, one after the other, some with the same token. A node cannot tell the votes of two rounds
 * with one token apart. So what is left of the earlier one must not be taken back any more when the later one has
 * begun, which does that itself if it is lost.
 */
export class RequestRounds {
  #latest: Round | undefined;
  /** Whether the request has ended, so that no further round may begin. */
  isOver = false;

  next(token: string): Round {
    return (this.#latest = { token, isRepetition: this.#latest?.token === token });
  }

  /** Whether a later round with the same token has begun. */
  isRepeated(round: Round): boolean {
    return this.#latest !== round && this.#latest?.token === round.token;
  }
}
