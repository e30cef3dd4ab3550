import { Column, Entity, PrimaryColumn } from 'typeorm';

/** How many pieces of one product are left. */
@Entity('stocks')
export class Stock {
  @PrimaryColumn('text')
  id!: string;

  @Column('text')
  name!: string;

  @Column('integer')
  quantity!: number;
}
