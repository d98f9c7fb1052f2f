using System;
using System.Collections.Generic;
using System.Linq;
using Scoregate;

/// <summary>What requests and answers of the driver are made of.</summary>
internal static class Made
{
    internal static readonly JsonValue Nothing = new JsonObject().Build();

    internal static JsonValue Of(string name, string value) => new JsonObject().Add(name, value).Build();

    internal static byte[] Bytes(JsonValue base64) => Convert.FromBase64String(base64.AsText());

    internal static string[] Texts(JsonValue list) => list.AsList().Select(item => item.AsText()).ToArray();

    internal static JsonValue Problem(int status, string reason, string detail, double? retryAfterS) => new JsonObject()
        .Add("status", status)
        .Add("reason", reason)
        .Add("detail", detail)
        .Add("retry_after_s", retryAfterS == null ? JsonValue.Null : JsonValue.Of(retryAfterS.Value))
        .Build();

    internal static Claim Claim(JsonValue told)
    {
        var recording = told["recording"].IsNull ? null : Bytes(told["recording"]);
        var claim = new Claim(told["score"].AsLong(), told["ticks"].AsLong(), recording);
        foreach (var stat in told["stats"].AsList())
        {
            claim.WithStat(stat.Items[0].AsText(), stat.Items[1].AsLong());
        }

        return claim;
    }

    internal static EntryQuery Query(JsonValue told) => new EntryQuery
    {
        Window = told["window"].AsTextOrNull(),
        Offset = told["offset"].AsLongOrNull(),
        Limit = told["limit"].AsLongOrNull(),
        Cursor = told["cursor"].AsTextOrNull(),
        Ranks = told["ranks"].AsTextOrNull(),
        Friends = told["friends"].AsBoolOrNull() ?? false,
        Players = told["players"].IsNull ? null : Texts(told["players"]),
        Segment = told["segment"].AsTextOrNull(),
    };

    internal static IEnumerable<KeyValuePair<string, string>> Metadata(JsonValue told) =>
        told["metadata"].Members.Select(member => new KeyValuePair<string, string>(
            member.Key,
            member.Value.Kind == JsonKind.Text ? member.Value.AsText() : member.Value.ToString()));
}
