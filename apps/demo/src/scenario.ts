/** How a request to buy ended. */
export type Outcome = 'sold' | 'refused' | 'busy' | 'failed';

/** Buyer number `buyer` asks for `pieces`. Never rejects. */
export type Buy = (buyer: number, pieces: number) => Promise<Outcome>;

export interface Scenario {
  readonly name: string;
  /** What happens, in one line. */
  readonly story: string;
  /** How many pieces there are. The buyers ask for more than these, so a correct sale ends at 0. */
  readonly pieces: number;
  /** Lets every buyer buy and waits for the last answer. */
  run(buy: Buy): Promise<void>;
}
