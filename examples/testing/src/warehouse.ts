import { Injectable } from '@nestjs/common';

/** Stands for a database: reading and writing take a moment. */
@Injectable()
export class Warehouse {
  readonly quantities = new Map([['42', 10]]);

  async read(id: string): Promise<number> {
    await new Promise((resolve) => setTimeout(resolve, 2));
    return this.quantities.get(id) ?? 0;
  }

  async write(id: string, quantity: number): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 2));
    this.quantities.set(id, quantity);
  }
}
