/* Named by bcc's own headers; our programs use nothing of it. */
