/* RabbitMQ as the configuration has it: its password, its files, what events say. */
#ifndef TN_MAIN_WIRE_BROKER_H
#define TN_MAIN_WIRE_BROKER_H

#include "broker/broker.h"
#include "config/config.h"

/* True with *ret_amqp NULL: the configuration names no broker. False: the reason has been
 * logged. */
bool wire_broker(const struct config *config, const struct os *os, struct engine *engine,
                 struct broker **ret_broker);

#endif
