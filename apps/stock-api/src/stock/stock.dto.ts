import { applyDecorators } from '@nestjs/common';
import { IsInt, IsOptional, Length, Matches, Max, Min } from 'class-validator';

export class StockParams {
  @StockId()
  id!: string;
}

export class TakeBody {
  @Quantity({ from: 1 })
  quantity!: number;
}

export class RestockBody {
  @Quantity({ from: 0 })
  quantity!: number;

  @IsOptional()
  @Length(1, 200, { message: "name '$value' is not valid: use a text of 1 to 200 characters" })
  name?: string;
}

export function StockId(): PropertyDecorator {
  return Matches(/^[\w-]{1,64}$/, {
    message: "id '$value' is not valid: use 1 to 64 letters, digits, '_' or '-'",
  });
}

export function Quantity({ from }: { from: number }): PropertyDecorator {
  const to = 1_000_000_000;
  const message = `quantity '$value' is not valid: use a whole number from ${from} to ${to}`;
  return applyDecorators(IsInt({ message }), Min(from, { message }), Max(to, { message }));
}
