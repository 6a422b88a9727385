package mongostore

import (
	"context"

	"github.com/fencedstore/fencedstore/sdk"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

func openTransaction(ctx context.Context, client *mongo.Client, c collection, desc sdk.Description, o *Options) (sdk.FencedStore, error) {
	return nil, sdk.Errorf(sdk.Unsupported, "layout", "not yet")
}
