"""What a stack costs a month at list prices: an estimate from its stack file, for decisions, never for invoices."""
