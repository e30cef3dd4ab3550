/**
 * The part of a `@nestjs-cls/transactional` adapter that is wrapped. The type is structural, so that it fits every
 * version and copy of that package.
 */
export interface TransactionalAdapter {
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- adapters narrow the parameters
  optionsFactory: (connection: any, extraProviders: any[]) => AdapterMethods;
  onApplicationBootstrap?: () => unknown;
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- the body's result is the caller's
export type Body = (...args: any[]) => Promise<any>;

/** Passes the transaction object to the transaction host. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- the ORM's type
export type SetTx = (tx?: any) => void;

/* eslint-disable @typescript-eslint/no-explicit-any -- the ORM's options, transaction and result */
export interface AdapterMethods {
  wrapWithTransaction: (options: any, body: Body, setTx: SetTx) => Promise<any>;
  wrapWithNestedTransaction?:
    ((options: any, body: Body, setTx: SetTx, tx: any) => Promise<any>) | undefined;
  getFallbackInstance: () => any;
}
/* eslint-enable @typescript-eslint/no-explicit-any */
