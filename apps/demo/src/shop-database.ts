import { Client } from 'pg';

/** What the database says about one product. */
export interface Books {
  readonly left: number;
  readonly purchases: number;
  readonly pieces: number;
}

/** The demo's tables. They have a schema of their own, so other data in the same database stays as it is. */
export class ShopDatabase {
  private constructor(
    private readonly client: Client,
    private readonly schema: string,
    /** Leads to the schema: connections opened with it see only these tables. */
    readonly url: string,
  ) {}

  static async create(serverUrl: string, schema: string): Promise<ShopDatabase> {
    const url = new URL(serverUrl);
    const options = [url.searchParams.get('options'), `-c search_path=${schema}`];
    url.searchParams.set('options', options.filter(Boolean).join(' '));

    const client = new Client({ connectionString: url.href });
    // A server that goes away is noticed by the next query.
    client.on('error', () => undefined);
    await client.connect();
    await client.query(`CREATE SCHEMA ${schema}`);
    return new ShopDatabase(client, schema, url.href);
  }

  async putOnSale(stockId: string, quantity: number): Promise<void> {
    await this.client.query('INSERT INTO stocks (id, name, quantity) VALUES ($1, $1, $2)', [
      stockId,
      quantity,
    ]);
  }

  async books(stockId: string): Promise<Books> {
    const { rows } = await this.client.query<Books>(
      `SELECT stocks.quantity AS left,
              count(purchases.id)::int AS purchases,
              coalesce(sum(purchases.quantity), 0)::int AS pieces
         FROM stocks LEFT JOIN purchases ON purchases.stock_id = stocks.id
        WHERE stocks.id = $1
        GROUP BY stocks.id`,
      [stockId],
    );
    const [books] = rows;
    if (books === undefined) throw new Error(`The database has no stock '${stockId}'`);
    return books;
  }

  async drop(): Promise<void> {
    try {
      await this.client.query(`DROP SCHEMA ${this.schema} CASCADE`);
    } finally {
      await this.client.end();
    }
  }
}
