import { NestFactory } from '@nestjs/core';
import { ApiModule } from './app.modules.js';

const app = await NestFactory.create(ApiModule);
app.enableShutdownHooks();
await app.listen(0, '127.0.0.1');
console.log(`The API listens on ${await app.getUrl()}`);
