import { Column, CreateDateColumn, Entity, PrimaryGeneratedColumn } from 'typeorm';

/** One successful `take`. Rows are only ever added, so their sum tells what was sold. */
@Entity('purchases')
export class Purchase {
  @PrimaryGeneratedColumn('identity')
  id!: number;

  @Column('text', { name: 'stock_id' })
  stockId!: string;

  @Column('integer')
  quantity!: number;

  @CreateDateColumn({ type: 'timestamptz', name: 'purchased_at' })
  purchasedAt!: Date;
}
