import { Column, CreateDateColumn, Entity, PrimaryGeneratedColumn } from 'typeorm';

export interface OrderLine {
  readonly productId: string;
  readonly quantity: number;
}

/** What was bought at once: either all of its lines, or none. */
@Entity('orders')
export class Order {
  @PrimaryGeneratedColumn('identity')
  id!: number;

  @Column('jsonb')
  lines!: readonly OrderLine[];

  @CreateDateColumn({ type: 'timestamptz', name: 'placed_at' })
  placedAt!: Date;
}
