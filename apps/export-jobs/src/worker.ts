import { NestFactory } from '@nestjs/core';
import { WorkerModule } from './app.modules.js';

const app = await NestFactory.createApplicationContext(WorkerModule);
app.enableShutdownHooks();
console.log('The worker waits for jobs');
