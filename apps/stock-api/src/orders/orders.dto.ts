import { Type } from 'class-transformer';
import { ArrayMaxSize, ArrayNotEmpty, IsArray, ValidateNested } from 'class-validator';
import { Quantity, StockId } from '../stock/stock.dto.js';
import type { OrderLine } from './order.entity.js';

export class OrderLineBody implements OrderLine {
  @StockId()
  productId!: string;

  @Quantity({ from: 1 })
  quantity!: number;
}

export class OrderBody {
  @IsArray({ message: 'lines is not valid: use a list of { productId, quantity }' })
  @ArrayNotEmpty({ message: 'lines is empty: order something' })
  @ArrayMaxSize(50, { message: 'lines is too long: order 50 products at most' })
  @ValidateNested({ each: true })
  @Type(() => OrderLineBody)
  lines!: OrderLineBody[];
}
