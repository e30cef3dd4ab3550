import { Injectable } from '@nestjs/common';
import { MurLock } from 'murlock';

@Injectable()
export class StockService {
  @MurLock(5000, 'id')
  async take(id: string): Promise<void> {}
}
