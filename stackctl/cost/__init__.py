"""An estimate of what a stack costs a month at list prices, from its stack file: for decisions, never for invoices."""
